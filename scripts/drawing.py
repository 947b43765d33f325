"""What the drawn pictures of the documents share: their width, their look in light and dark, titles, axes and legends. The program's
own pictures (--plot) are drawn by cli/svg.c."""

import html

WIDTH, LEFT, RIGHT = 920, 70, 20  # pixels: what README's column has
ROOM = WIDTH - LEFT - RIGHT
COLOURS = ["#3b6fb6", "#e08a3c", "#7a9e4b", "#9a8fb0"]  # seen on light and dark
STYLE = """.stowage{font:13px system-ui,-apple-system,"Segoe UI",sans-serif}
.stowage text{fill:#17202b}.stowage .faint{fill:#5d6875}
.stowage .page{fill:#fff}.stowage .lane{fill:#eceff3}.stowage .grid{stroke:#dde2e8}.stowage .limit{stroke:#b33}
@media (prefers-color-scheme:dark){
.stowage text{fill:#e8edf2}.stowage .faint{fill:#9aa6b4}
.stowage .page{fill:#12161c}.stowage .lane{fill:#1e252e}.stowage .grid{stroke:#2c3540}.stowage .limit{stroke:#ff7a7a}
}"""


def title(out, y, text):
    out.append(f'<text x="{LEFT}" y="{y + 14}" font-weight="bold">{html.escape(text)}</text>')


def axis(out, y, scale, ticks, unit):
    """Numbers below a chart; `scale` is pixels for 1 of them."""
    for tick in ticks:
        out.append(f'<text class="faint" x="{LEFT + tick * scale:.1f}" y="{y}" text-anchor="middle">{tick:g}{unit}</text>')


def legend(out, y, entries):
    """(colour, name) each, in a line."""
    x = LEFT
    for colour, name in entries:
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/><text x="{x + 18}" y="{y + 11}">{html.escape(name)}</text>')
        x += 44 + 7 * len(name)


def write(path, out, height):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" class="stowage" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
            f'<style>\n{STYLE}\n</style>\n<rect class="page" width="100%" height="100%"/>\n')
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + "\n".join(out) + "\n</svg>\n")
