"""Time against size, as an SVG that needs no library, and as a PNG where something can draw one."""

import shutil
import subprocess
from math import ceil, floor, log2, log10
from pathlib import Path
from xml.sax.saxutils import escape

PANEL_WIDTH, PANEL_HEIGHT = 460, 340
LEFT, TOP, RIGHT, BOTTOM = 64, 46, 16, 44
LEGEND = 190
# The Okabe and Ito palette, which colour-blind readers can tell apart; ours are the two strong ones.
COLOURS = {
    "rondo-rondo": "#d55e00",
    "rondo-malloc": "#0072b2",
    "limit": "#000000",
    "openmpi": "#009e73",
    "mpich": "#cc79a7",
    "impi": "#e69f00",
    "impi-yield": "#b8860b",
    "gloo": "#56b4e9",
    "deepspeed": "#8c6bb1",
    "rondo-device": "#d55e00",
    "nccl": "#009e73",
}


def size_text(size):
    for unit, shift in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift}{unit}"
    return str(size)


def time_text(power):
    return {-1: "100 ns", 0: "1 us", 1: "10 us", 2: "100 us", 3: "1 ms", 4: "10 ms", 5: "100 ms"}.get(
        power, f"1e{power} us"
    )


class Panel:
    """One collective, both axes logarithmic."""

    def __init__(self, title, lines, left):
        self.title, self.lines, self.left = title, lines, left
        points = [point for line in lines.values() for point in line]
        self.sizes = sorted({size for size, _ in points})
        self.low = floor(log10(min(time for _, time in points)))
        self.high = max(ceil(log10(max(time for _, time in points))), self.low + 1)

    def x(self, size):
        first, last = log2(self.sizes[0]), log2(self.sizes[-1])
        share = 0.5 if first == last else (log2(size) - first) / (last - first)
        return self.left + LEFT + share * (PANEL_WIDTH - LEFT - RIGHT)

    def y(self, time):
        share = (log10(time) - self.low) / (self.high - self.low)
        return PANEL_HEIGHT - BOTTOM - share * (PANEL_HEIGHT - TOP - BOTTOM)

    def grid(self):
        right = self.left + PANEL_WIDTH - RIGHT
        for power in range(self.low, self.high + 1):
            y = self.y(10**power)
            yield f'<line x1="{self.left + LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{self.left + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{time_text(power)}</text>'
        every = max(1, ceil(len(self.sizes) / 7))
        for size in self.sizes[::every]:
            x = self.x(size)
            bottom = PANEL_HEIGHT - BOTTOM
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#eee"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{size_text(size)}</text>'
        yield f'<text x="{self.left + LEFT}" y="{TOP - 14}" font-size="15">{escape(self.title)}</text>'

    def curves(self):
        for name, line in self.lines.items():
            points = " ".join(f"{self.x(size):.1f},{self.y(time):.1f}" for size, time in line)
            yield f'<polyline points="{points}" fill="none" {stroke(name)}/>'
            for size, time in line:
                x, y, colour = self.x(size), self.y(time), COLOURS.get(name, "#888")
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'


def stroke(name):
    width = 2.6 if name.startswith("rondo") else 1.6
    dashes = ' stroke-dasharray="5,4"' if name == "limit" else ""
    return f'stroke="{COLOURS.get(name, "#888")}" stroke-width="{width}"{dashes}'


def legend(titles, left):
    for row, (name, title) in enumerate(titles.items()):
        y = TOP + 10 + 22 * row
        yield f'<line x1="{left}" y1="{y}" x2="{left + 26}" y2="{y}" {stroke(name)}/>'
        yield f'<text x="{left + 34}" y="{y + 4}">{escape(title)}</text>'


def svg_text(panels, titles, caption):
    """panels: {title: {program: [(size, microseconds)]}}; titles: {program: title}."""
    drawn = [Panel(title, lines, index * PANEL_WIDTH) for index, (title, lines) in enumerate(panels.items())]
    width, height = len(drawn) * PANEL_WIDTH + LEGEND, PANEL_HEIGHT + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for panel in drawn:
        parts += [*panel.grid(), *panel.curves()]
    parts += legend(titles, len(drawn) * PANEL_WIDTH + 8)
    parts.append(f'<text x="{LEFT}" y="{height - 12}" fill="#555">{escape(caption)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def draw_png(svg, png):
    """True if one of the usual converters is there and did it."""
    commands = (
        ["rsvg-convert", "--zoom", "2", "-o", png, svg],
        ["magick", "-density", "192", svg, png],
        ["convert", "-density", "192", svg, png],
        ["inkscape", "--export-dpi=192", "-o", png, svg],
    )
    for command in commands:
        if shutil.which(command[0]) and subprocess.run(command, capture_output=True).returncode == 0:
            return Path(png).is_file()
    return False


def draw_png_by_matplotlib(panels, titles, caption, png):
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return False
    figure, axes = pyplot.subplots(1, len(panels), figsize=(6 * len(panels), 4.6), squeeze=False)
    for axis, (title, lines) in zip(axes[0], panels.items()):
        for name, line in lines.items():
            sizes, times = zip(*line)
            style = "--" if name == "limit" else "-"
            axis.loglog(sizes, times, style, marker=".", color=COLOURS.get(name), label=titles[name])
        axis.set(title=title, xlabel="bytes", ylabel="microseconds")
        axis.grid(True, color="#eee")
    axes[0][-1].legend(fontsize=8)
    figure.text(0.01, 0.005, caption, fontsize=8)
    figure.tight_layout()
    figure.savefig(png, dpi=150)
    return True


def plot(path, panels, titles, caption):
    """Writes PATH.svg, and PATH.png where possible. Returns what was written."""
    svg, png = f"{path}.svg", f"{path}.png"
    Path(svg).write_text(svg_text(panels, titles, caption))
    drawn = draw_png(svg, png) or draw_png_by_matplotlib(panels, titles, caption, png)
    return [svg, png] if drawn else [svg]
