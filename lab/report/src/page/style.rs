//! The page's style sheet. Colours are those of Okabe and Ito, which stay apart for every kind of colour vision;
//! lighter ones in the dark.

/// Style sheet for light and dark, narrow and wide, screen and paper.
pub(super) const CSS: &str = "\
:root{--bg:#fff;--fg:#1b1f24;--dim:#59636e;--rule:#d5dae0;--card:#f5f7f9;--ok:#00694b;--bad:#a63d00;--q:#59636e;\
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#7a6a00;--c5:#56b4e9}\
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e6e9ec;--dim:#9aa4ae;--rule:#333a42;--card:#1d2127;\
--ok:#3ddc9f;--bad:#ff9a5c;--q:#9aa4ae;--c0:#4aa8e0;--c1:#f08a45;--c2:#2cc79b;--c3:#e29bc4;--c4:#d9c84a;--c5:#8fd0f5}}\
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}\
main{max-width:1240px;margin:0 auto;padding:24px 16px 64px}h1{font-size:1.6rem;line-height:1.25;margin:0 0 12px}h1,p,dd,li{overflow-wrap:anywhere}\
h2{font-size:1.15rem;margin:32px 0 8px}p{max-width:75ch;color:var(--dim);margin:8px 0}\
.verdict{border-left:6px solid var(--q);background:var(--card);padding:12px 18px}\
.verdict.pass{border-color:var(--ok)}.verdict.fail{border-color:var(--bad)}\
.headline{font-size:1.2rem;font-weight:600;color:var(--fg);margin:0;max-width:none}\
.missed{list-style:none;margin:8px 0;padding:0}.sign{display:inline-block;min-width:3.6em;font-weight:700}\
.unknown>.sign{color:var(--q)}.pass>.sign,.pass>.headline .sign{color:var(--ok)}.fail>.sign,.fail>.headline .sign{color:var(--bad)}\
.scroll{overflow-x:auto}table{border-collapse:separate;border-spacing:0;font-variant-numeric:tabular-nums;min-width:100%}\
th,td{padding:6px 10px;text-align:right;border-bottom:1px solid var(--rule)}\
thead th{font-size:.85rem;color:var(--dim);font-weight:600;vertical-align:bottom}\
th:first-child,td.part,thead th:nth-child(2){text-align:left}td.part{white-space:nowrap}\
.charts>*{min-width:0}.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));gap:12px}\
figure{margin:0;background:var(--card);padding:8px}svg{display:block;width:100%;height:auto;max-height:420px}\
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}svg .h{font-size:13px;font-weight:600;fill:var(--fg)}\
svg .m{fill:var(--fg);font-size:10px;paint-order:stroke;stroke:var(--card);stroke-width:3px;stroke-linejoin:round}svg .a{fill:var(--fg)}\
.grid{stroke:var(--rule);stroke-width:.6;fill:none}.tick{stroke:var(--dim);fill:none}\
.mark{stroke:var(--fg);stroke-width:.8;stroke-dasharray:2 3;fill:none}\
.line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}.d1{stroke-dasharray:6 3}.d2{stroke-dasharray:2 3}\
.d3{stroke-dasharray:10 3 2 3}.d4{stroke-dasharray:14 4}.d5{stroke-dasharray:6 3 2 3 2 3}.d6{stroke-dasharray:4 6}\
.dots{fill:none;stroke-width:3;stroke-linecap:round;stroke-opacity:.55}.k1{stroke-linecap:square}.k2{stroke-width:5}\
.k3{stroke-width:5;stroke-linecap:square}.band{fill-opacity:.25;stroke:none}.area{fill-opacity:.85;stroke:none}\
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}\
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:8px 0}dt{color:var(--dim)}dd{margin:0}\
@media(max-width:600px){dl{grid-template-columns:1fr}dd{margin-bottom:6px}}\
@media print{figure{break-inside:avoid}}";

/// What a page has beside it: expected values in colour, drawings of several panels, text drawings. Tables scroll inside
/// themselves, and their first column stays: rows that scroll under it are of the same background. On a telephone of
/// 360 pixels the columns of names take 176 of the 336 that a table has, so that three columns of figures are in sight.
pub(super) const SCENARIO_CSS: &str = "\
h3{font-size:1rem;margin:16px 0 4px}pre{background:var(--card);padding:12px;font:13px/1.35 ui-monospace,monospace}\
tr.pass .sign{color:var(--ok)}tr.fail .sign{color:var(--bad)}tr.unknown .sign{color:var(--q)}\
td.part,th.part,thead th.part{text-align:left}.scenario thead th:nth-child(2):not(.part){text-align:right}figure svg{max-height:640px}strong{color:var(--fg)}\
.lead h2{margin:12px 0 8px}.lead figure svg{max-height:min(520px,66vh)}\
.scenario th:first-child{position:sticky;left:0;background:var(--bg)}\
@media(max-width:600px){main{padding:12px 12px 48px}h1{font-size:1.25rem}.verdict{padding:8px 12px}.headline{font-size:1rem}\
.scenario{font-size:.8rem}.scenario thead th{font-size:.75rem}.scenario th,.scenario td{padding:4px}\
.scenario th:first-child,.scenario th:first-child+.part{min-width:88px;max-width:88px;white-space:normal;overflow-wrap:anywhere}}";
