// The dumbbell of `perhop bench sim` in ns-3: the peer that Perhop's simulator is measured beside.
//
// N hosts on the left send to N hosts on the right; both sides hang on a router, and between the routers lies the
// bottleneck with its drop-tail queue. Everything is told by arguments, none of which has a default, so that the two
// simulators cannot differ by one that was forgotten; bench/src/sim/dumbbell.rs states the values and why.
// Standard output gets one JSON object: seconds of Simulator::Run alone, by the clock and of the processor, and those
// of everything; events; bytes that arrived in order.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

struct Settings
{
    uint32_t flows = 0;
    uint32_t pairs = 0;
    uint64_t bottleneckBitS = 0;
    uint64_t accessBitS = 0;
    uint64_t delayNs = 0;
    uint32_t queuePackets = 0;
    uint32_t accessQueuePackets = 0;
    uint64_t simNs = 0;
    uint64_t spacingNs = 0;
    std::string congestion;
    bool sack = false;
    bool timestamps = false;
    uint32_t mss = 0;
    uint32_t initialWindow = 0;
    uint32_t buffer = 0;
    uint64_t minRtoNs = 0;
    uint64_t initialRtoNs = 0;
    uint32_t delayedAckSegments = 0;
    uint64_t delayedAckNs = 0;
    uint32_t retries = 0;
};

Settings
ReadSettings(int argc, char* argv[])
{
    Settings s;
    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "connections", s.flows);
    cmd.AddValue("pairs", "hosts on each side", s.pairs);
    cmd.AddValue("bottleneck-bit-s", "rate between the routers", s.bottleneckBitS);
    cmd.AddValue("access-bit-s", "rate of every other link", s.accessBitS);
    cmd.AddValue("delay-ns", "delay between the routers", s.delayNs);
    cmd.AddValue("queue-packets", "queue before the bottleneck", s.queuePackets);
    cmd.AddValue("access-queue-packets", "queue before every other link", s.accessQueuePackets);
    cmd.AddValue("sim-ns", "simulated time", s.simNs);
    cmd.AddValue("spacing-ns", "between the starts of two flows", s.spacingNs);
    cmd.AddValue("congestion", "congestion control, a class of ns3", s.congestion);
    cmd.AddValue("sack", "selective acknowledgment", s.sack);
    cmd.AddValue("timestamps", "time-stamps and window scaling", s.timestamps);
    cmd.AddValue("mss", "payload of a full segment", s.mss);
    cmd.AddValue("initial-window", "segments", s.initialWindow);
    cmd.AddValue("buffer", "bytes of each send and receive buffer", s.buffer);
    cmd.AddValue("min-rto-ns", "least retransmission timeout", s.minRtoNs);
    cmd.AddValue("initial-rto-ns", "retransmission timeout before a measurement", s.initialRtoNs);
    cmd.AddValue("delayed-ack-segments", "segments an acknowledgment waits for", s.delayedAckSegments);
    cmd.AddValue("delayed-ack-ns", "time it waits for them", s.delayedAckNs);
    cmd.AddValue("retries", "timeouts before giving up", s.retries);
    cmd.Parse(argc, argv);
    return s;
}

void
SetTransport(const Settings& s)
{
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + s.congestion)));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType",
                       TypeIdValue(TypeId::LookupByName("ns3::TcpPrrRecovery")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(s.mss));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(s.initialWindow));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(s.buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(s.buffer));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(s.delayedAckSegments));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(NanoSeconds(s.delayedAckNs)));
    Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(NanoSeconds(s.initialRtoNs)));
    Config::SetDefault("ns3::TcpSocket::DataRetries", UintegerValue(s.retries));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(NanoSeconds(s.minRtoNs)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(s.sack));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(s.timestamps));
    Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(s.timestamps));
    Config::SetDefault("ns3::TcpSocketBase::LimitedTransmit", BooleanValue(true));
}

/// Installs a link whose device queue is the only one: a queueing discipline above it would be a second.
NetDeviceContainer
Connect(Ptr<Node> a, Ptr<Node> b, uint64_t bitS, uint64_t delayNs, uint32_t queuePackets)
{
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", DataRateValue(DataRate(bitS)));
    helper.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delayNs)));
    helper.SetQueue("ns3::DropTailQueue",
                    "MaxSize",
                    QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queuePackets)));
    return helper.Install(a, b);
}

Ipv4InterfaceContainer
Number(const NetDeviceContainer& devices, const std::string& network)
{
    Ipv4AddressHelper addresses;
    addresses.SetBase(network.c_str(), "255.255.255.0");
    auto interfaces = addresses.Assign(devices);
    TrafficControlHelper().Uninstall(devices);
    return interfaces;
}

} // namespace

int
main(int argc, char* argv[])
{
    const auto began = std::chrono::steady_clock::now();
    const Settings s = ReadSettings(argc, argv);
    SetTransport(s);

    NodeContainer routers;
    routers.Create(2);
    NodeContainer left;
    NodeContainer right;
    left.Create(s.pairs);
    right.Create(s.pairs);

    // Static routes only: a router has one route to the other side, a host a default route.
    Ipv4StaticRoutingHelper routing;
    InternetStackHelper stack;
    stack.SetRoutingHelper(routing);
    stack.SetIpv6StackInstall(false);
    stack.Install(routers);
    stack.Install(left);
    stack.Install(right);

    auto core = Connect(routers.Get(0), routers.Get(1), s.bottleneckBitS, s.delayNs, s.queuePackets);
    auto coreAddresses = Number(core, "10.0.0.0");
    std::vector<Ipv4Address> receivers;
    for (uint32_t side = 0; side < 2; side++)
    {
        for (uint32_t i = 0; i < s.pairs; i++)
        {
            auto host = (side == 0 ? left : right).Get(i);
            auto link = Connect(host, routers.Get(side), s.accessBitS, 0, s.accessQueuePackets);
            auto addresses =
                Number(link, "10." + std::to_string(side + 1) + "." + std::to_string(i) + ".0");
            routing.GetStaticRouting(host->GetObject<Ipv4>())
                ->SetDefaultRoute(addresses.GetAddress(1), 1);
            if (side == 1)
            {
                receivers.push_back(addresses.GetAddress(0));
            }
        }
    }
    for (uint32_t side = 0; side < 2; side++)
    {
        const auto network = "10." + std::to_string(2 - side) + ".0.0";
        routing.GetStaticRouting(routers.Get(side)->GetObject<Ipv4>())
            ->AddNetworkRouteTo(network.c_str(),
                                "255.255.0.0",
                                coreAddresses.GetAddress(1 - side),
                                1);
    }

    const uint16_t port = 5001;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    auto sinks = sink.Install(right);
    const auto stop = NanoSeconds(s.simNs);
    for (uint32_t flow = 0; flow < s.flows; flow++)
    {
        const uint32_t pair = flow % s.pairs;
        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(receivers[pair], port));
        // A write of one segment is the one that ns-3 need not cut.
        bulk.SetAttribute("SendSize", UintegerValue(s.mss));
        bulk.SetAttribute("MaxBytes", UintegerValue(0));
        auto sender = bulk.Install(left.Get(pair));
        sender.Start(NanoSeconds(s.spacingNs * flow));
    }

    Simulator::Stop(stop);
    const auto started = std::chrono::steady_clock::now();
    const auto processor = std::clock();
    Simulator::Run();
    const auto worked = std::clock() - processor;
    const auto ended = std::chrono::steady_clock::now();
    const uint64_t events = Simulator::GetEventCount();
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < sinks.GetN(); i++)
    {
        bytes += DynamicCast<PacketSink>(sinks.Get(i))->GetTotalRx();
    }
    Simulator::Destroy();
    const auto finished = std::chrono::steady_clock::now();
    const auto seconds = [](auto from, auto to) {
        return std::chrono::duration<double>(to - from).count();
    };
    const double processorSeconds = static_cast<double>(worked) / CLOCKS_PER_SEC;
    std::cout << "{\"run_s\":" << seconds(started, ended) << ",\"cpu_s\":" << processorSeconds
              << ",\"total_s\":" << seconds(began, finished) << ",\"events\":" << events << ",\"bytes\":" << bytes << "}" << std::endl;
    return 0;
}
