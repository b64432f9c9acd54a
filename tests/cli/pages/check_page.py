#!/usr/bin/env python3
"""Opens pages of `k3bench report` in a headless Chromium and uses them as a reader does.

check_page.py RECORD PAGE            views, sorting, filters, hover, numbers, dark, print and phone
check_page.py --several COUNT PAGE   the page of several records
check_page.py --harmless PAGE...     hostile or large records: nothing runs, nothing is fetched

Exit codes: 0 right, 1 faults, 77 no browser here.
"""

import json
import sys

sys.dont_write_bytecode = True

import browser as chromium  # noqa: E402

FAULTS = []


def expect(what, holds, seen=None):
    if not holds:
        FAULTS.append("%s%s" % (what, "" if seen is None else ": " + json.dumps(seen)[:400]))


def measured(record):
    return [cell for cell in record["cells"] if cell["phases"]]


def headline(cell):
    """The phase that a cell is judged by."""
    name = {"control": "dispatch", "experts": "expert_mlp"}.get(cell["component"], cell["component"])
    return next(phase for phase in cell["phases"] if phase["name"] == name)


def no_faults(browser, where):
    expect("%s: no error, no request, no dialog" % where, not browser.faults(), browser.faults())


# --- views ---

STRUCTURE = """(() => {
  const figures = [...document.querySelectorAll('figure')];
  return {
    kinds: figures.map((f) => f.dataset.kind),
    named: figures.every((f) => f.querySelector('svg[role=img]').getAttribute('aria-label')),
    folded: figures.every((f) => { const d = f.querySelector('details'); return d && !d.open && d.querySelector('.tsv').textContent.split('\\n').length > 2; }),
    units: figures.every((f) => /\\b(us|B|max \\/ mean|of the base)\\b/.test(f.querySelector('svg').textContent)),
    broken: document.documentElement.outerHTML.match(/\\b(NaN|nan|inf|undefined)\\b(?=[^<]*<\\/(td|text|li|p)>)/g),
    heads: [...document.querySelectorAll('h2')].map((h) => h.textContent),
    rows: document.querySelectorAll('#cells0 tbody tr').length,
  };
})()"""


def check_structure(browser, record):
    seen, cells = browser.value(STRUCTURE), measured(record)
    lanes = [cell for cell in cells if cell["qps"]]
    waits = [cell for cell in cells if cell["waits"]]
    for kind, count in (("phases", 1), ("samples", 1), ("imbalance", 1)):
        expect("one picture of %s" % kind, seen["kinds"].count(kind) == count, seen["kinds"])
    expect("a timeline for each cell", seen["kinds"].count("timeline") == sum(1 for c in cells if c["timeline"]),
           seen["kinds"])
    for kind in ("bytes", "busy", "qp-bytes", "qp-busy"):
        expect("maps %s of dispatch and combine" % kind, seen["kinds"].count(kind) == 2 * len(lanes), seen["kinds"])
    expect("maps of waits", seen["kinds"].count("waits") >= len(waits) > 0, seen["kinds"])
    for name in ("named", "folded", "units"):
        expect("every picture is %s" % name, seen[name])
    expect("no word for nothing", not seen["broken"], seen["broken"])
    expect("a row for each measured cell", seen["rows"] == len(cells), seen["rows"])
    for head in ("Cells", "Phases", "Iterations", "Imbalance", "Cell by cell", "Origin"):
        expect("a head %s" % head, head in seen["heads"], seen["heads"])
    expect("refused cells have a head", ("Refused and failed" in seen["heads"]) ==
           any(cell["status"] != "ok" for cell in record["cells"]), seen["heads"])


def digits(value):
    """As tables of the page show it: five digits, or all in front of the point."""
    return "%.0f" % value if 1e4 <= abs(value) < 1e9 else "%.5g" % value


def check_numbers(browser, record):
    """What stands on the page is what stands in the record."""
    shown = browser.value("[...document.querySelectorAll('#cells0 tbody tr')].map((r) => Number(r.cells[8].dataset.value))")
    for value, cell in zip(shown, measured(record)):
        expect("the total of %s" % cell["backend"], abs(value - headline(cell)["median"]) <= 1e-8 * value, value)
    formats = browser.value("[...document.querySelectorAll('#cells0 tbody tr')].map((r) => [10, 11, 12].map((i) => r.cells[i].textContent))")
    expect("formats and runner of each cell", formats == [
        [cell["choices"]["dispatch_dtype"], cell["choices"]["combine_dtype"], cell["choices"]["recipe"]["runner"]] for cell in measured(record)], formats)
    text = browser.value("document.querySelector('figure[data-kind=phases] .tsv').textContent")
    lines = [line.split("\t") for line in text.strip().split("\n")][1:]
    phases = [phase for cell in measured(record) for phase in cell["phases"]]
    expect("a line for each phase", len(lines) == len(phases), len(lines))
    wanted = sorted((phase["name"], digits(phase["median"])) for phase in phases)
    expect("medians of all phases", sorted((line[1], line[2]) for line in lines) == wanted)
    options = browser.value("[...document.querySelectorAll('details table')].at(-1).tBodies[0].rows.length")
    expect("every option at the end", options == len(record["run"]["options"]), options)


# --- tables ---

COLUMN = "[...document.querySelectorAll('#cells0 tbody tr')].filter((r) => !r.hidden).map((r) => r.cells[%d].dataset.value ?? r.cells[%d].textContent)"


def check_sorting(browser):
    for column, number in ((8, True), (5, True), (0, False)):
        head = "#cells0 th:nth-child(%d) button" % (column + 1)
        for direction in ("ascending", "descending"):
            browser.click(head)
            seen = browser.value(COLUMN % (column, column))
            known = [float(v) if number else v for v in seen if v != ""]
            expect("column %d %s" % (column, direction), known == sorted(known, reverse=direction == "descending"), seen)
            expect("the unknown is last", seen[:len(known)].count("") == 0, seen)
            said = browser.value("document.querySelector('#cells0 th:nth-child(%d)').getAttribute('aria-sort')" % (column + 1))
            expect("the head says %s" % direction, said == direction, said)


def set_control(browser, selector, value):
    browser.value("(() => { const c = document.querySelector(%s); c.value = %s; c.dispatchEvent(new Event('input')); })()"
                  % (json.dumps(selector), json.dumps(value)))


def check_filters(browser, record):
    names = [c["backend"] + (":" + c["mode"] if c["mode"] else "") for c in measured(record)]
    choose, search = "select[data-column='0']", "input[data-table=cells0]"
    options = browser.value("[...document.querySelector(%s).options].map((o) => o.text)" % json.dumps(choose))
    expect("a choice for each backend", options == ["all"] + sorted(set(names)), options)
    set_control(browser, choose, names[0])
    expect("the rows of one backend", set(browser.value(COLUMN % (0, 0))) == {names[0]})
    set_control(browser, choose, "")
    set_control(browser, search, "  %s FAST " % names[0].upper())
    expect("words in any case", set(browser.value(COLUMN % (0, 0))) == {names[0]})
    set_control(browser, search, "nothing is called so")
    expect("no row", browser.value(COLUMN % (0, 0)) == [])
    set_control(browser, search, "")
    expect("all rows again", len(browser.value(COLUMN % (0, 0))) == len(names))


# --- hover, numbers ---

def check_hover(browser, record):
    for kind in ("phases", "samples", "timeline", "imbalance"):
        selector = "figure[data-kind=%s] [data-tip]" % kind
        browser.move_to(selector)
        wanted = browser.value("document.querySelector(%s).dataset.tip" % json.dumps(selector))
        hidden, text = browser.value("[tip.hidden, tip.textContent]")
        expect("hover over %s" % kind, not hidden and text != "" and text == wanted, [text, wanted])
    browser.move(2, 2)
    expect("no tip beside the pictures", browser.value("tip.hidden"))
    cell = next(cell for cell in measured(record) if cell["qps"])
    columns = cell["qps"]["columns"]
    bytes_of = {}
    for row in cell["qps"]["rows"]:
        lane = dict(zip(columns, row))
        if lane["phase"] == "dispatch":
            key = lane["src"], lane["dst"]
            bytes_of[key] = bytes_of.get(key, 0) + lane["bytes_wire"]
    for source, destination in ((0, 1), (1, 0), (1, 1)):
        x, y = browser.value(
            "(() => { const m = document.querySelector('figure[data-kind=bytes]').closest('.map'), s = m.querySelector('svg');"
            "s.scrollIntoView({block: 'center'}); const b = s.getBoundingClientRect(), d = m.dataset, f = b.width / s.viewBox.baseVal.width;"
            "return [b.x + f * (Number(d.left) + d.size * %d.5), b.y + f * (Number(d.top) + d.size * %d.5)]; })()" % (destination, source))
        browser.move(x, y)
        wanted = "source %d, destination %d: %s" % (
            source, destination, "%d B" % bytes_of[source, destination] if bytes_of.get((source, destination)) else "nothing")
        expect("hover over a map", browser.value("tip.textContent") == wanted, [browser.value("tip.textContent"), wanted])


def check_tables(browser):
    """Numbers become a table when they are opened, all of them."""
    wanted = browser.value("[...document.querySelectorAll('figure .tsv')].map((p) => p.textContent.trim().split('\\n').length)")
    browser.value("document.querySelectorAll('figure details').forEach((d) => { d.open = true; }); new Promise((r) => setTimeout(r, 200))")
    seen = browser.value("[...document.querySelectorAll('figure')].map((f) => f.querySelectorAll('tr').length)")
    expect("tables of the numbers", seen == wanted, [seen, wanted])


# --- media ---

def check_media(browser):
    light = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = browser.value("getComputedStyle(document.body).backgroundColor")
    expect("a dark page", light != dark, [light, dark])
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    expect("no filters on paper", browser.value("getComputedStyle(document.querySelector('.filters')).display") == "none")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    width = browser.value("document.documentElement.scrollWidth")
    expect("a phone need not scroll sideways", width <= 390, width)
    browser.call("Emulation.clearDeviceMetricsOverride")


def check_record(browser, path, page):
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    browser.open(page)
    check_structure(browser, record)
    check_numbers(browser, record)
    check_sorting(browser)
    check_filters(browser, record)
    check_hover(browser, record)
    check_media(browser)
    check_tables(browser)
    no_faults(browser, page)


def check_several(browser, count, page):
    browser.open(page)
    seen = browser.value(STRUCTURE)
    for kind in ("comparison", "launches"):
        expect("a picture of %s" % kind, kind in seen["kinds"], seen["kinds"])
    expect("every picture has numbers and units", seen["named"] and seen["folded"] and seen["units"])
    sections = browser.value("document.querySelectorAll('section').length")
    expect("a section for each record", sections == count + 1, sections)
    points = browser.value("document.querySelectorAll('figure[data-kind=launches] circle').length")
    ends = browser.value("document.querySelectorAll('figure[data-kind=launches] line.curve').length")
    expect("an interval on every point", points > count and points == ends, [points, ends])
    no_faults(browser, page)


def check_harmless(browser, page):
    browser.open(page)
    seen = browser.value("[document.scripts.length, document.querySelectorAll('iframe, img, object, a[href], form').length, "
                         "[...document.querySelectorAll('*')].filter((e) => [...e.attributes].some((a) => a.name.startsWith('on'))).length, "
                         "document.querySelectorAll('section h1').length]")
    expect("%s: one script, nothing active" % page, seen[:3] == [1, 0, 0] and seen[3] > 0, seen)
    browser.move(400, 300)
    browser.click("#cells0 th:nth-child(9) button")
    no_faults(browser, page)
    paint = browser.value("performance.getEntriesByType('paint').map((e) => e.startTime)")
    print("%s: first paint %s" % (page, ", ".join("%.0f ms" % time for time in paint[:1])))


def main():
    if chromium.find() is None:
        print("skipped: no chromium here")
        return 77
    with chromium.Browser() as browser:
        if sys.argv[1] == "--several":
            check_several(browser, int(sys.argv[2]), sys.argv[3])
        elif sys.argv[1] == "--harmless":
            for page in sys.argv[2:]:
                check_harmless(browser, page)
        else:
            check_record(browser, sys.argv[1], sys.argv[2])
    for fault in FAULTS:
        print(fault)
    return 1 if FAULTS else 0


if __name__ == "__main__":
    sys.exit(main())
