#!/usr/bin/python3
"""ddl report --html, ddl scaling --html, the page of a tuning and of a history in a real browser (headless Chromium): nothing leaves the file, nothing is said on the console, the page never scrolls sideways, words in drawings
do not run into each other, contrast and roles satisfy axe-core where it is installed (npm ci --prefix tests/reports/html).

    browser.py [FOLDER]    keep the pictures in FOLDER, to be looked at
"""
import base64
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.keys import Keys
except ImportError as missing:
    print(f"skipped: {missing} (apt-get install python3-selenium)")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
from copied_runs import growing  # noqa: E402

BUILD = Path(os.environ.get("DDL_BUILD", Path(__file__).resolve().parents[3] / "build/release")).resolve()
AXE = Path(__file__).with_name("node_modules") / "axe-core" / "axe.min.js"
WIDTHS = (360, 1280, 3840)
TABLES = ("ddl_resnet50_scaling", "mlperf_scaling_decomposition")
JOBS = ("small", "gpu", "pipeline", "hostile", "empty")

# Words of a drawing that overlap, leave it, or are too small to read, in CSS pixels.
DRAWINGS = """
const bad = [];
for (const svg of document.querySelectorAll('.drawing svg')) {
  const box = svg.getBoundingClientRect();
  if (box.width < 100 || box.height < 40) bad.push(`${svg.querySelector('title').textContent}: ${box.width} x ${box.height}`);
  const words = [...svg.querySelectorAll('text')].filter(t => t.textContent).map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, r] of words) {
    if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1) bad.push(`leaves its drawing: ${text}`);
    if (r.height < 9) bad.push(`too small (${r.height}): ${text}`);
  }
  for (let i = 0; i < words.length; ++i)
    for (let j = i + 1; j < words.length; ++j) {
      const [a, r] = words[i], [b, s] = words[j];
      const x = Math.min(r.right, s.right) - Math.max(r.left, s.left), y = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
      if (x > 1 && y > Math.min(r.height, s.height) / 3) bad.push(`"${a}" on "${b}"`);
    }
}
return bad.slice(0, 10);
"""


def browser(profile):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        print("skipped: no chromium and chromedriver (apt-get install chromium chromium-driver)")
        sys.exit(77)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
                     "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service(driver), options=options)


def show(driver, width, scheme):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "screen", "features": [{"name": "prefers-color-scheme", "value": scheme}]})


def picture(driver, path):
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": {**size_of(driver), "x": 0, "y": 0, "scale": 1}})
    path.write_bytes(base64.b64decode(shot["data"]))


def size_of(driver):
    size = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    return {"width": size["width"], "height": size["height"]}


def requests_of(driver):
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def check_axe(driver):
    driver.execute_script(AXE.read_text())
    found = driver.execute_async_script("const done = arguments[0]; axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']}).then(r => done(r.violations))")
    assert not found, json.dumps([{"id": f["id"], "nodes": [n["html"][:200] + " " + n["failureSummary"][:300] for n in f["nodes"][:3]]} for f in found], indent=1)


def check_keyboard(driver):
    """The first stop is the way past the links; everything that scrolls or opens can be reached."""
    body = driver.find_element("tag name", "body")
    body.send_keys(Keys.TAB)
    assert driver.switch_to.active_element.get_attribute("class") == "skip", driver.switch_to.active_element.get_attribute("outerHTML")[:200]
    unreachable = driver.execute_script("return [...document.querySelectorAll('.scroll, summary, a')].filter(e => e.tabIndex < 0).length")
    assert unreachable == 0, unreachable


def check_page(driver, file, pictures):
    url = file.as_uri()
    driver.get(url)
    assert driver.execute_script("return document.scripts.length") == 0
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            show(driver, width, scheme)
            where = f"{file.name} {scheme} {width}"
            wide = driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
            assert wide[0] <= wide[1], f"{where}: scrolls sideways, {wide}"
            bad = driver.execute_script(DRAWINGS)
            assert not bad, f"{where}: {bad}"
            if pictures:
                picture(driver, pictures / f"{file.stem}-{scheme}-{width}.png")
        if AXE.exists():
            show(driver, 1280, scheme)
            driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
            check_axe(driver)
            driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = false)")
    check_keyboard(driver)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    printed = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert printed.startswith(b"%PDF") and len(printed) > 10_000
    if pictures:
        (pictures / f"{file.stem}.pdf").write_bytes(printed)
    requests = set(requests_of(driver))
    assert requests <= {url}, f"{file.name} asked for {requests}"
    said = [entry["message"] for entry in driver.get_log("browser")]
    assert not said, f"{file.name}: {said}"


def check_the_checks(driver, folder):
    """A page that does load, say and scroll is noticed: a test that cannot fail proves nothing."""
    file = folder / "bad.html"
    file.write_text("<!DOCTYPE html><title>t</title><meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><img src=http://127.0.0.1:9/x.png><pre>" + "x" * 5000)
    driver.get(file.as_uri())
    show(driver, 360, "light")
    assert driver.execute_script("return document.documentElement.scrollWidth > window.innerWidth")
    assert driver.get_log("browser"), "the policy's refusal is on the console"
    list(requests_of(driver))


def history_page(folder):
    database = folder / "runs.sqlite"
    subprocess.run([BUILD / "bin" / "ddl", "history", "add", folder / "small.ddl", folder / "hostile.ddl", "--database", database], check=True, stdout=subprocess.DEVNULL)
    with sqlite3.connect(database) as history:
        columns = [row[1] for row in history.execute("PRAGMA table_info(ddl_run)")]
        history.executescript(growing(columns, 120))
    subprocess.run([BUILD / "bin" / "ddl", "history", "html", "--database", database, "-o", folder / "history.html"], check=True)


def main():
    pictures = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        driver = browser(folder / "profile")
        try:
            subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder, *JOBS], check=True)
            check_the_checks(driver, folder)
            for job in JOBS:
                file = folder / f"{job}.html"
                subprocess.run([BUILD / "bin" / "ddl", "report", folder / f"{job}.ddl", "--html", file], check=True)
                check_page(driver, file, pictures)
            for table in TABLES:
                file = folder / f"{table}.html"
                source = Path(__file__).resolve().parents[2] / "published" / f"{table}.csv"
                names = ["--map", "time_min=time_to_train_min_olympic,epoch_s=median_epoch_s"] if table.startswith("mlperf") else []
                subprocess.run([BUILD / "bin" / "ddl", "scaling", source, *names, "--html", file], check=True)
                check_page(driver, file, pictures)
            subprocess.run([BUILD / "tests" / "programs" / "html_jobs", folder, "tuning"], check=True)
            check_page(driver, folder / "tuning.html", pictures)
            history_page(folder)
            check_page(driver, folder / "history.html", pictures)
        finally:
            driver.quit()
    print("axe-core: checked" if AXE.exists() else f"axe-core: not checked, {AXE} is not there (npm ci --prefix tests/reports/html)")


if __name__ == "__main__":
    main()
