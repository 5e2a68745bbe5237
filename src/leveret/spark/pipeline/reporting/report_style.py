"""How the report looks: one sheet, by day and by night."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--edge:#e3e6eb;--ink:#1b2430;--soft:#5d6878;--grid:#eceff3;
--blue:#2f6fdb;--teal:#12988a;--amber:#dd8f0b;--violet:#7c5bd6;--green:#5b9f3c;--rose:#d3608f;--red:#d2434f;--grey:#9aa4b2;
--line1:#7db0f5;--line2:#2f6fdb;--line3:#143f8c;--hover:rgba(27,36,48,.07)}
@media(prefers-color-scheme:dark){:root{--page:#11151b;--card:#191f28;--edge:#29313d;--ink:#e6eaf0;--soft:#98a3b3;--grid:#252d38;
--blue:#5b95f5;--teal:#35b9a9;--amber:#eaa732;--violet:#a188ee;--green:#7fc25f;--rose:#e487ae;--red:#ee6b75;--grey:#76818f;
--line1:#3d5f94;--line2:#5b95f5;--line3:#c4dbff;--hover:rgba(230,234,240,.09)}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:1260px;margin:0 auto;padding:34px 20px 40px}
header h1{font-size:27px;line-height:1.2;margin:0;letter-spacing:-.01em}
header p{margin:5px 0 22px;color:var(--soft)}
header span{float:right}
h2{font-size:15px;font-weight:600;margin:0 0 10px}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-bottom:16px}
.tile,section{background:var(--card);border:1px solid var(--edge);border-radius:10px}
.tile{padding:13px 16px 11px}
.tile h2{font-size:13px;font-weight:500;color:var(--soft);margin:0}
.tile b{display:block;font-size:26px;line-height:1.25;font-weight:650;font-variant-numeric:tabular-nums;
letter-spacing:-.01em;white-space:nowrap}
.tile small{color:var(--soft);font-size:12.5px}
.tile.bad b{color:var(--red)}.tile.warn b{color:var(--amber)}
section{padding:15px 18px 12px;margin-bottom:16px;min-width:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:16px;margin-bottom:16px}
.pair section{margin:0}
.scroll{overflow-x:auto}
svg{display:block;width:100%;min-width:640px;height:auto}
svg.bars{min-width:380px}
.tick{font-size:11.5px;fill:var(--soft);font-variant-numeric:tabular-nums}.tick.day{font-weight:600;fill:var(--ink)}
.name{font-size:13px;fill:var(--ink)}
.grid{stroke:var(--grid)}.axis{stroke:var(--grey)}
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.hit{fill:transparent}.hit:hover,.bar:hover .hit{fill:var(--hover)}
.mark line{stroke:var(--ink);stroke-dasharray:3 3;opacity:.55}.mark path{fill:var(--ink)}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--soft);margin:-2px 0 8px}
.legend i,td i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px}
.note{color:var(--soft);font-size:12.5px;margin:6px 0 0}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{font-weight:500;color:var(--soft);font-size:12.5px;border-bottom:1px solid var(--edge)}
th,td{padding:6px 14px 6px 0;text-align:left;vertical-align:top;white-space:nowrap}
th:last-child,td:last-child{padding-right:0}
th.r,td.r{text-align:right;font-variant-numeric:tabular-nums}
td.t{white-space:normal;overflow-wrap:anywhere;min-width:150px;max-width:340px}
tbody tr+tr td{border-top:1px solid var(--grid)}
tbody tr:hover td{background:var(--hover)}
.empty p{margin:4px 0;color:var(--soft)}
code{font:12.5px/1.4 ui-monospace,SFMono-Regular,Menlo,"Liberation Mono",monospace;
background:var(--page);border:1px solid var(--edge);border-radius:5px;padding:1px 6px}
footer{color:var(--soft);font-size:13px;margin-top:22px}
"""
