#!/usr/bin/env python3
"""Draw charts as SVG, with nothing but Python's standard library.

Three functions return the text of an SVG:

    lines       curves, with bands if there are intervals
    intervals   dots with intervals, a row of them for each category
    bars        upright bars, a group of them for each category

Each takes a list of panels, which are drawn side by side under one legend.  A panel
is a dictionary with

    title       what is special about it
    series      a list of dictionaries: "name", and "points" or "values", see below
    categories  their names; not for lines
    x, y        axes, as below, where they differ from those of the other panels
    reference   {"value": 1, "label": "as fast"}: a line across; optional

and an axis is a dictionary, of which every entry is optional, with

    title       what is shown, and its unit
    scale       "linear", the default, or "log"
    range       [least, most]: what it spans at least
    ticks       the numbers to write, if not the obvious ones

A series has the same look in all panels.  As a program, this reads a JSON object
from its standard input, with "chart", the name of a function, and the function's
arguments, and writes the SVG to its standard output.
"""

import html
import json
import math
import sys

# Okabe and Ito's colours, which the colour-blind can tell apart, without their
# yellow, which white paper swallows.  Dashes and marks differ as well.
COLOURS = ('#0072b2', '#56b4e9', '#009e73', '#000000', '#cc79a7', '#e69f00', '#d55e00', '#888888')
DASHES = ('', '7 3', '', '7 3', '2 3', '', '9 3 2 3', '1 4')
MARKS = (
    'M-4 0A4 4 0 1 1 4 0A4 4 0 1 1 -4 0Z',
    'M-3.5 -3.5H3.5V3.5H-3.5Z',
    'M0 -5L5 0L0 5L-5 0Z',
    'M0 -4.5L4.5 3.5H-4.5Z',
    'M0 4.5L4.5 -3.5H-4.5Z',
    'M-1.5 -4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z',
    'M-4.5 -2.5L-2.5 -4.5L0 -2L2.5 -4.5L4.5 -2.5L2 0L4.5 2.5L2.5 4.5L0 2L-2.5 4.5L-4.5 2.5L-2 0Z',
    'M-1.5 -5H1.5V5H-1.5Z',
)

INK = '#222222'
GRID = '#e2e2e2'
AXIS = '#777777'

TITLE = 16      # sizes of letters
PANEL_TITLE = 13
TEXT = 12
SMALL = 11

MARGIN = 16     # around the picture, and between panels
GAP = 6         # between a text and what it belongs to
OVERHANG = 12   # of the last number on an axis


# ---------------------------------------------------------------------------
# Numbers and axes
# ---------------------------------------------------------------------------

def number(value, decimals=None):
    """Return a number as one reads it: 1,000 or −0.25."""
    text = f'{value:,.6f}'.rstrip('0').rstrip('.') if decimals is None else f'{value:,.{decimals}f}'
    return '0' if text == '-0' else text.replace('-', '\N{MINUS SIGN}')


def coordinate(value):
    """Return a number as it is written in an SVG."""
    text = f'{value:.2f}'.rstrip('0').rstrip('.')
    return '0' if text == '-0' else text


def linear_ticks(least, most, count):
    """Return about so many round numbers, the outer ones not within the limits."""
    step = (most - least) / count
    magnitude = 10 ** math.floor(math.log10(step))
    step = min(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= step * 0.999)
    first = math.floor(least / step + 1e-9)
    last = math.ceil(most / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def log_ticks(least, most):
    """Return powers of ten or, if they are few, their doubles and quintuples, too."""
    first = math.floor(math.log10(least) + 1e-9)
    last = math.ceil(math.log10(most) - 1e-9)
    factors = (1,) if last - first > 3 else (1, 2, 5)
    ticks = [f * 10.0 ** e for e in range(first, last + 1) for f in factors]
    low = max(t for t in ticks if t <= least * 1.001)
    high = min(t for t in ticks if t >= most * 0.999)
    return [t for t in ticks if low <= t <= high]


class Axis:
    """A range of numbers, and where it is drawn."""

    def __init__(self, settings, values, count):
        self.title = settings.get('title', '')
        self.log = settings.get('scale') == 'log'
        values = list(values) + settings.get('range', [])
        least, most = min(values), max(values)
        if least == most:
            least, most = (least / 2, most * 2) if self.log else (least - 1, most + 1)
        self.ticks = settings.get('ticks')
        if self.ticks is None:
            self.ticks = log_ticks(least, most) if self.log else linear_ticks(least, most, count)
        self.least = min(self.ticks[0], least)
        self.most = max(self.ticks[-1], most)
        self.start = self.end = 0

    def place(self, start, end):
        self.start, self.end = start, end

    def at(self, value):
        if self.log:
            share = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            share = (value - self.least) / (self.most - self.least)
        return self.start + share * (self.end - self.start)

    def width(self):
        """Return how much room the widest number needs."""
        return max(text_width(number(t), SMALL) for t in self.ticks)


def text_width(text, size):
    """Return how wide a text is at most, in a sans-serif font of average width."""
    return len(text) * size * 0.58


def settings_of(panel, name, common):
    return {**(common or {}), **panel.get(name, {})}


def with_interval(value):
    """Return (value, low, high) of a number alone or of a list of these three."""
    if isinstance(value, (int, float)):
        return value, value, value
    return tuple(value)


# ---------------------------------------------------------------------------
# Drawing
# ---------------------------------------------------------------------------

class Drawing:
    """The elements of an SVG, in the order in which they are painted."""

    def __init__(self):
        self.elements = []

    def add(self, name, content=None, **attributes):
        text = ''.join(f' {key.replace("_", "-")}="{coordinate(v) if isinstance(v, float) else v}"'
                       for key, v in attributes.items() if v != '')
        self.elements.append(f'<{name}{text}/>' if content is None else
                             f'<{name}{text}>{content}</{name}>')

    def text(self, x, y, content, size=TEXT, anchor='start', **attributes):
        self.add('text', html.escape(content), x=float(x), y=float(y), font_size=size,
                 text_anchor='' if anchor == 'start' else anchor, **attributes)

    def line(self, x1, y1, x2, y2, stroke, **attributes):
        self.add('line', x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=stroke, **attributes)

    def rectangle(self, x, y, width, height, fill, **attributes):
        self.add('rect', x=float(x), y=float(y), width=float(width), height=float(height), fill=fill, **attributes)

    def path(self, points, close=False, **attributes):
        steps = ''.join(f'{"L" if i else "M"}{coordinate(x)} {coordinate(y)}' for i, (x, y) in enumerate(points))
        self.add('path', d=steps + ('Z' if close else ''), **attributes)

    def mark(self, x, y, look):
        self.add('path', d=MARKS[look % len(MARKS)], fill=COLOURS[look % len(COLOURS)], stroke='#ffffff',
                 stroke_width='0.8', transform=f'translate({coordinate(x)} {coordinate(y)})')

    def svg(self, width, height, title):
        body = '\n'.join(self.elements)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {coordinate(width)} {coordinate(height)}" '
                f'width="{coordinate(width)}" height="{coordinate(height)}" role="img" '
                f'font-family="sans-serif" fill="{INK}">\n<title>{html.escape(title)}</title>\n'
                f'<rect width="100%" height="100%" fill="#ffffff"/>\n{body}\n</svg>\n')


class Area:
    """Where the data of a panel are drawn."""

    def __init__(self, left, top, right, bottom):
        self.left, self.top, self.right, self.bottom = left, top, right, bottom


def draw_x_axis(drawing, axis, area):
    for tick in axis.ticks:
        x = axis.at(tick)
        drawing.line(x, area.top, x, area.bottom, AXIS if tick == 0 and not axis.log else GRID)
        drawing.text(x, area.bottom + GAP + SMALL, number(tick), SMALL, 'middle')
    drawing.text((area.left + area.right) / 2, area.bottom + 2 * GAP + SMALL + TEXT, axis.title, TEXT, 'middle')


def draw_y_axis(drawing, axis, area):
    for tick in axis.ticks:
        y = axis.at(tick)
        drawing.line(area.left, y, area.right, y, AXIS if tick == 0 and not axis.log else GRID)
        drawing.text(area.left - GAP, y + SMALL * 0.35, number(tick), SMALL, 'end')
    if axis.title:
        x = area.left - axis.width() - 2 * GAP
        y = (area.top + area.bottom) / 2
        drawing.text(x, y, axis.title, TEXT, 'middle', transform=f'rotate(-90 {coordinate(x)} {coordinate(y)})')


def draw_reference(drawing, panel, axis, area, upright):
    """Draw the panel's reference line, with its label on the inner side."""
    reference = panel.get('reference')
    if not reference:
        return
    at = axis.at(reference['value'])
    style = {'stroke_dasharray': '4 3', 'stroke_width': '1.2'}
    if upright:
        drawing.line(at, area.top, at, area.bottom, INK, **style)
        drawing.text(at + GAP, area.top + SMALL, reference.get('label', ''), SMALL)
    else:
        drawing.line(area.left, at, area.right, at, INK, **style)
        drawing.text(area.right, at - GAP / 2, reference.get('label', ''), SMALL, 'end')


def legend_rows(names, width):
    """Break the legend into rows of (name, x)."""
    rows, x = [[]], 0
    for name in names:
        needed = 30 + GAP + text_width(name, TEXT) + MARGIN
        if x > 0 and x + needed > width:
            rows.append([])
            x = 0
        rows[-1].append((name, x))
        x += needed
    return rows


def draw_legend(drawing, rows, looks, top, draw_key):
    for row in rows:
        for name, x in row:
            draw_key(drawing, MARGIN + x, top + TEXT * 0.6, looks[name])
            drawing.text(MARGIN + x + 30 + GAP, top + TEXT, name)
        top += TEXT + 8


def line_key(drawing, x, y, look):
    drawing.line(x, y, x + 30, y, COLOURS[look % len(COLOURS)], stroke_width=2,
                 stroke_dasharray=DASHES[look % len(DASHES)])


def marked_line_key(drawing, x, y, look):
    line_key(drawing, x, y, look)
    drawing.mark(x + 15, y, look)


def interval_key(drawing, x, y, look):
    drawing.line(x + 3, y, x + 27, y, COLOURS[look % len(COLOURS)], stroke_width=1.6)
    drawing.mark(x + 15, y, look)


def bar_key(drawing, x, y, look):
    drawing.rectangle(x + 14, y - 6, 14, 12, COLOURS[look % len(COLOURS)])


def compose(title, panels, columns, width, left, height_of, draw_key, draw_panel, note):
    """Arrange the panels below title and legend.

    left is the room to the left of each panel's area, height_of(panel) the height
    of its area, draw_panel(drawing, panel, area, looks) draws it.
    """
    names = dict.fromkeys(s['name'] for panel in panels for s in panel['series'])
    looks = {name: look for look, name in enumerate(names)}
    columns = min(columns, len(panels))
    drawing = Drawing()
    drawing.text(MARGIN, MARGIN + TITLE, title, TITLE, font_weight='bold')
    top = MARGIN + TITLE + 14
    if len(names) > 1:
        rows = legend_rows(names, width - 2 * MARGIN)
        draw_legend(drawing, rows, looks, top, draw_key)
        top += len(rows) * (TEXT + 8)
    panel_width = (width - MARGIN) / columns
    for first in range(0, len(panels), columns):
        row = panels[first:first + columns]
        top += MARGIN + PANEL_TITLE
        height = max(height_of(panel) for panel in row)
        for i, panel in enumerate(row):
            start = MARGIN + i * panel_width
            area = Area(start + left, top + GAP, start + panel_width - MARGIN - OVERHANG,
                        top + GAP + height_of(panel))
            drawing.text(area.left, top - GAP / 2, panel.get('title', ''), PANEL_TITLE, font_weight='bold')
            draw_panel(drawing, panel, area, looks)
        top += GAP + height + 2 * GAP + SMALL + TEXT + GAP
    if note:
        drawing.text(MARGIN, top + TEXT, note, SMALL, fill='#555555')
        top += TEXT + GAP
    return drawing.svg(width, top + MARGIN, title)


# ---------------------------------------------------------------------------
# The charts
# ---------------------------------------------------------------------------

def lines(title, panels, x=None, y=None, columns=2, width=960, height=280, marks=True, note=''):
    """Draw curves.  A series has "points", lists [x, y] or [x, y, low, high]."""
    def axes(panel):
        points = [p for s in panel['series'] for p in s['points']]
        reference = [panel['reference']['value']] if panel.get('reference') else []
        return (Axis(settings_of(panel, 'x', x), [p[0] for p in points], 6),
                Axis(settings_of(panel, 'y', y), [v for p in points for v in p[1:]] + reference, 6))

    def draw_panel(drawing, panel, area, looks):
        x_axis, y_axis = axes(panel)
        x_axis.place(area.left, area.right)
        y_axis.place(area.bottom, area.top)
        draw_y_axis(drawing, y_axis, area)
        draw_x_axis(drawing, x_axis, area)
        for series in panel['series']:
            band = [p for p in series['points'] if len(p) == 4]
            drawing.path([(x_axis.at(p[0]), y_axis.at(p[3])) for p in band] +
                         [(x_axis.at(p[0]), y_axis.at(p[2])) for p in reversed(band)],
                         close=True, fill=COLOURS[looks[series['name']] % len(COLOURS)], fill_opacity='0.18')
        draw_reference(drawing, panel, y_axis, area, upright=False)
        for series in panel['series']:
            look = looks[series['name']]
            points = [(x_axis.at(p[0]), y_axis.at(p[1])) for p in series['points']]
            drawing.path(points, fill='none', stroke=COLOURS[look % len(COLOURS)], stroke_width=2,
                         stroke_dasharray=DASHES[look % len(DASHES)], stroke_linejoin='round')
            for point in points if marks else ():
                drawing.mark(*point, look)

    left = max(axes(panel)[1].width() for panel in panels) + TEXT + 3 * GAP
    return compose(title, panels, columns, width, left, lambda panel: height,
                   marked_line_key if marks else line_key, draw_panel, note)


def intervals(title, panels, x=None, columns=2, width=960, step=10, note=''):
    """Draw dots with intervals.

    A series has "values", one for each category: a number, [value, low, high] or
    null.  step is the distance between two series.
    """
    def group_height(panel):
        return (len(panel['series']) + 1) * step

    def draw_panel(drawing, panel, area, looks):
        values = [v for s in panel['series'] for value in s['values'] if value is not None
                  for v in with_interval(value)]
        axis = Axis(settings_of(panel, 'x', x), values, 5)
        axis.place(area.left, area.right)
        for i, category in enumerate(panel['categories']):
            y = area.top + i * group_height(panel)
            if i % 2 == 0:
                drawing.rectangle(area.left, y, area.right - area.left, group_height(panel), '#f5f5f5')
            drawing.text(area.left - GAP, y + group_height(panel) / 2 + SMALL * 0.35, category, SMALL, 'end')
        draw_x_axis(drawing, axis, area)
        draw_reference(drawing, panel, axis, area, upright=True)
        for k, series in enumerate(panel['series']):
            look = looks[series['name']]
            for i, value in enumerate(series['values']):
                if value is None:
                    continue
                middle, low, high = with_interval(value)
                y = area.top + i * group_height(panel) + (k + 1) * step
                drawing.line(axis.at(low), y, axis.at(high), y, COLOURS[look % len(COLOURS)], stroke_width=1.6)
                drawing.mark(axis.at(middle), y, look)

    left = max(text_width(c, SMALL) for panel in panels for c in panel['categories']) + GAP
    return compose(title, panels, columns, width, left,
                   lambda panel: len(panel['categories']) * group_height(panel),
                   interval_key, draw_panel, note)


def bars(title, panels, x=None, y=None, columns=1, width=960, height=260, decimals=None, note=''):
    """Draw upright bars, with their values above them.

    A series has "values", one for each category: a number, [value, low, high] or
    null.  decimals is how many to write of a value, if not as many as it has.
    """
    def axis_of(panel):
        values = [v for s in panel['series'] for value in s['values'] if value is not None
                  for v in with_interval(value)]
        settings = settings_of(panel, 'y', y)
        if panel.get('reference'):
            values.append(panel['reference']['value'])
        if settings.get('scale') != 'log':
            values.append(0)
        return Axis(settings, values, 5)

    def draw_panel(drawing, panel, area, looks):
        axis = axis_of(panel)
        axis.place(area.bottom, area.top)
        draw_y_axis(drawing, axis, area)
        group = (area.right - area.left) / len(panel['categories'])
        bar = min(group * 0.8 / len(panel['series']), 48)
        labels = []
        for i, category in enumerate(panel['categories']):
            middle_of_group = area.left + (i + 0.5) * group
            drawing.text(middle_of_group, area.bottom + GAP + SMALL, category, SMALL, 'middle')
            for k, series in enumerate(panel['series']):
                if series['values'][i] is None:
                    continue
                value, low, high = with_interval(series['values'][i])
                start = middle_of_group + (k - len(panel['series']) / 2) * bar
                base = axis.least if axis.log else 0
                top, bottom = sorted((axis.at(value), axis.at(base)))
                drawing.rectangle(start + 1, top, bar - 2, bottom - top, COLOURS[looks[series['name']] % len(COLOURS)])
                middle = start + bar / 2
                if low < high:
                    drawing.line(middle, axis.at(low), middle, axis.at(high), INK, stroke_width=1.4)
                above = min(top, axis.at(high)) - 3
                if text_width(number(value, decimals), SMALL) <= bar + 4:
                    labels.append((middle, above, number(value, decimals)))
        draw_reference(drawing, panel, axis, area, upright=False)
        for middle, above, label in labels:
            drawing.text(middle, above, label, SMALL, 'middle', stroke='#ffffff', stroke_width=3, paint_order='stroke')
        drawing.text((area.left + area.right) / 2, area.bottom + 2 * GAP + SMALL + TEXT,
                     settings_of(panel, 'x', x).get('title', ''), TEXT, 'middle')

    left = max(axis_of(panel).width() for panel in panels) + TEXT + 3 * GAP
    return compose(title, panels, columns, width, left, lambda panel: height, bar_key, draw_panel, note)


def main():
    arguments = json.load(sys.stdin.buffer)
    chart = {'lines': lines, 'intervals': intervals, 'bars': bars}[arguments.pop('chart')]
    sys.stdout.buffer.write(chart(**arguments).encode())


if __name__ == '__main__':
    main()
