use super::*;

#[test]
fn settings_have_ranges() {
    let second = Duration::from_secs(1);
    assert_eq!(RtpSettings::new(65, second, second), Err(RtpSettingsError::Packets(65)));
    assert_eq!(RtpSettings::new(10, Duration::ZERO, second), Err(RtpSettingsError::Within(0)));
    assert_eq!(RtpSettings::new(10, second, Duration::ZERO), Err(RtpSettingsError::Idle(0)));
    let ten = RtpSettings::default();
    assert_eq!(ten.with_regular(11), Err(RtpSettingsError::Regular(11)));
    assert_eq!(ten.with_regular(2), Err(RtpSettingsError::Regular(2)));
    assert_eq!(ten.with_regular(6).map(|s| (s.packets(), s.regular(), s.supported())), Ok((10, 6, 3)));
    let least = RtpSettings::new(3, second, second).map(|s| s.supported());
    assert_eq!(least, Ok(3));
}

#[test]
fn the_window_counts_what_came_within_it() {
    let header = |i: u32| Header { sequence: i as u16, timestamp: i * 160, ssrc: 1, payload_type: 0 };
    // 7 s in parts of 1 s, at two packets a second.
    let mut train = Train::begin(0, 0, &header(0));
    for i in 1..40 {
        assert_eq!(train.step(7_000_000, i * 500_000, &header(i)), Ok(()));
        assert!(u32::from(train.count()) >= (i + 1).min(14), "{i}: {}", train.count());
        assert!(u32::from(train.count()) <= (i + 1).min(16), "{i}: {}", train.count());
    }
    assert_eq!(train.step(7_000_000, 27_000_000, &header(40)), Err(NotRtp::TooFew));
}
