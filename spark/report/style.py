"""How the page looks. Kept apart so that the page's code is about what it says."""

from typing import Final

CSS: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --paper: #fff;
  --wash: #f5f7fa; --good: #16794a; --good-wash: #e7f5ee; --bad: #b3261e; --bad-wash: #fdecea;
  --warn: #8a5a00; --link: #2456a6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #303a47;
  --paper: #12171e; --wash: #1a212b; --good: #58d39b; --good-wash: #12291f; --bad: #ff8a80;
  --bad-wash: #331a18; --warn: #e6b450; --link: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.1rem; font-weight: 600; color: var(--soft); margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .4rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p { margin: .4rem 0 .8rem; } .soft, small { color: var(--soft); }
.verdict { border-radius: 10px; padding: 1.25rem 1.5rem; margin: 0 0 1.25rem;
  border-left: 6px solid; }
.verdict b { display: block; font-size: 1.6rem; line-height: 1.25; margin-bottom: .25rem; }
.verdict.sound { background: var(--good-wash); border-color: var(--good); }
.verdict.sound b { color: var(--good); }
.verdict.findings { background: var(--bad-wash); border-color: var(--bad); }
.verdict.findings b { color: var(--bad); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr));
  gap: .75rem; margin: 0 0 1rem; }
.numbers div { background: var(--wash); border-radius: 8px; padding: .7rem .9rem; }
.numbers dt { color: var(--soft); font-size: .8rem; } .numbers dd { margin: 0; font-size: 1.25rem;
  font-weight: 600; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .86rem; margin: .5rem 0 1rem; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 2px solid var(--line); }
th, td { padding: .35rem .7rem .35rem 0; vertical-align: top; }
td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.kind { font-weight: 600; color: var(--bad); white-space: nowrap; }
td.time { white-space: nowrap; font-variant-numeric: tabular-nums; }
pre { background: var(--wash); border-radius: 8px; padding: .9rem 1rem; overflow-x: auto;
  font-size: .82rem; } .gone { color: var(--bad); } .new { color: var(--good); }
.chart { width: 100%; height: auto; display: block; margin: .5rem 0; }
.chart .grid { stroke: var(--line); } .chart text { fill: var(--soft); font-size: 11px; }
.chart .name { fill: var(--ink); font-size: 12px; }
.legend span { display: inline-block; margin-right: 1.1rem; font-size: .8rem; color: var(--soft); }
.legend i { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px;
  margin-right: .35rem; }
.c0 { fill: #3b76c4; background: #3b76c4; } .c1 { fill: #e08a3c; background: #e08a3c; }
.c2 { fill: #4aa37a; background: #4aa37a; } .c3 { fill: #b0568f; background: #b0568f; }
.c4 { fill: #8a7ac9; background: #8a7ac9; } .c5 { fill: #c2a83e; background: #c2a83e; }
.c6 { fill: #8d99a6; background: #8d99a6; }
footer { margin-top: 3rem; color: var(--soft); font-size: .8rem; }
@media print { main { max-width: none; padding: 0; } .verdict { break-inside: avoid; } }
"""
