"""The catalogue in a real browser: search, tabs, copying, accessibility, and a desktop's and a phone's width."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from modelwheel.index.site import write_site
from modelwheel.index.site.catalogue import Branding
from modelwheel.telemetry.events import read_events
from modelwheel.telemetry.history import collect
from modelwheel.telemetry.page import write_pages
from tests.support import builds
from tests.support.index_wheels import COMMIT, add_measurements, make_wheel
from tests.support.many_wheels import PLATFORMS, make_collection, make_release
from tests.support.site_server import serve

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="no chromium with chromedriver on PATH"
    ),
]

SWITCHES = ["headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"]
SWITCHES += ["disable-background-networking", "disable-component-update", "disable-sync"]

DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}

OVERVIEW, MODEL = "index.html", "models/model-jet-tagger.html"
BUILDS, BUILD = "runs/index.html", f"runs/builds/{builds.BUILD}.html"
PAGES = pytest.mark.parametrize(
    "page", [OVERVIEW, MODEL, BUILDS, BUILD], ids=["overview", "model", "builds", "build"]
)
LONG = "a-model-with-quite-a-long-name-that-wraps-on-a-phone"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("wheels")
    make_release(directory, "jet-tagger", platforms=PLATFORMS[:2], pythons=("cp313",), version="1.1.0")  # fmt: skip
    make_release(directory, "jet-tagger", day=30)
    make_release(directory, "digits", 1, platforms=PLATFORMS[:3], pythons=(), day=60)
    add_measurements(make_wheel(directory, LONG))
    branding = Branding("Models of a group", None, "group/models")
    site = write_site([directory], tmp_path_factory.mktemp("out") / "site", branding=branding)
    events = read_events(builds.write(directory / "events.jsonl"))
    write_pages(collect(events, 1), site.directory / "runs", 1)
    with serve(site.directory) as served:
        yield served.url


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for switch in [*SWITCHES, f"user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options, ChromeService(DRIVER))
    try:
        yield chrome
    finally:
        chrome.quit()


@pytest.fixture
def browser(chrome: Chrome) -> Chrome:
    """The browser as a desktop, with nothing left of the test before."""
    chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    chrome.execute_cdp_cmd("Browser.resetPermissions", {})
    look(chrome, DESKTOP, "light")
    chrome.get("about:blank")
    for kind in ("browser", "performance"):
        read_log(chrome, kind)
    return chrome


def look(browser: Chrome, device: dict[str, Any], scheme: str) -> None:
    """Changes the screen and its colours."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)


def shown(browser: Chrome) -> list[str]:
    rows = browser.find_elements(By.CSS_SELECTOR, ".models tbody tr")
    return [str(row.find_element(By.TAG_NAME, "a").text) for row in rows if row.is_displayed()]


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def choose(browser: Chrome, name: str, text: str) -> None:
    Select(find(browser, f"#{name}")).select_by_visible_text(text)


def read_log(browser: Chrome, kind: str) -> list[dict[str, Any]]:
    return list(browser.get_log(kind))  # type: ignore[no-untyped-call]


def requested_hosts(browser: Chrome, page: str) -> set[str | None]:
    """The hosts that a page had something sent from; the browser's own first tab is none of ours."""
    messages = [json.loads(e["message"])["message"] for e in read_log(browser, "performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [urlsplit(p["request"]["url"]) for p in sent if p["documentURL"].startswith(page)]
    return {parts.hostname for parts in urls if parts.scheme != "data"}


def open_details(browser: Chrome) -> None:
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


def overflow(browser: Chrome) -> int:
    """CSS pixels by which the page is wider than the window."""
    width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return int(browser.execute_script(f"return {width}"))


def keep_picture(browser: Chrome, name: str, directory: Path) -> None:
    """The whole page as PNG, in the directory that MODELWHEEL_SCREENSHOTS names, else in one of the test."""
    kept = Path(os.environ.get("MODELWHEEL_SCREENSHOTS") or directory)
    kept.mkdir(parents=True, exist_ok=True)
    options = {"format": "png", "captureBeyondViewport": True}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", options)
    (kept / name).write_bytes(base64.b64decode(taken["data"]))


@PAGES
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["1280", "390"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_fits_its_screen_and_asks_no_other_host(
    browser: Chrome, url: str, tmp_path: Path, page: str, device: dict[str, Any], scheme: str
) -> None:
    look(browser, device, scheme)
    browser.get(url + page)
    assert browser.execute_script("return window.innerWidth") == device["width"]
    keep_picture(browser, f"{Path(page).stem}-{device['width']}-{scheme}.png", tmp_path)
    open_details(browser)
    assert overflow(browser) == 0
    assert read_log(browser, "browser") == []
    assert requested_hosts(browser, url) == {"127.0.0.1"}


@PAGES
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Chrome, url: str, page: str, scheme: str) -> None:
    look(browser, DESKTOP, scheme)
    browser.get(url + page)
    open_details(browser)
    browser.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    # Schemes differ in their colours alone.
    rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}
    script = "axe.run(document, arguments[0]).then(arguments[1])"
    found = browser.execute_async_script(script, rules)
    problems = [
        f"{v['id']}: {v['help']}: {node['html']}"
        for v in found["violations"]
        for node in v["nodes"]
    ]
    assert problems == []
    assert len(found["passes"]) >= (1 if rules else 20)


def test_search_and_filters(browser: Chrome, url: str) -> None:
    browser.get(url)
    assert shown(browser) == [LONG, "digits", "jet-tagger"]
    query = find(browser, "#query")
    query.send_keys("VISION handwritten")
    assert shown(browser) == ["digits"]
    assert find(browser, "#found").text == "1 of 3"
    query.send_keys(" absent")
    assert shown(browser) == []
    find(browser, "#reset").click()
    assert len(shown(browser)) == 3
    query.send_keys(COMMIT[:12])
    assert len(shown(browser)) == 3
    query.clear()
    choose(browser, "place", "Windows x86-64")
    assert shown(browser) == ["jet-tagger"]
    choose(browser, "place", "all")
    choose(browser, "licence", "Apache-2.0 AND MIT")
    assert shown(browser) == ["digits"]
    choose(browser, "licence", "all")
    choose(browser, "tag", "physics")
    assert shown(browser) == ["jet-tagger"]
    assert read_log(browser, "browser") == []


def test_rows_are_sorted(browser: Chrome, url: str) -> None:
    browser.get(url)
    choose(browser, "order", "newest")
    assert shown(browser) == ["digits", "jet-tagger", LONG]
    choose(browser, "order", "fastest")
    assert shown(browser) == ["jet-tagger", "digits", LONG]
    choose(browser, "order", "smallest")
    rows = browser.find_elements(By.CSS_SELECTOR, ".models tbody tr")
    sizes = [int(str(row.get_attribute("data-n")).split()[0]) for row in rows]
    assert sizes == sorted(sizes)
    choose(browser, "order", "name")
    assert shown(browser) == [LONG, "digits", "jet-tagger"]


def test_the_address_says_what_is_shown(browser: Chrome, url: str) -> None:
    browser.get(url)
    find(browser, "#query").send_keys("jet-tagger")
    address = browser.current_url
    assert address.endswith("#query=jet-tagger")
    browser.get("about:blank")
    browser.get(address)
    assert shown(browser) == ["jet-tagger"]
    browser.get(f"{url}{MODEL}")
    find(browser, ".tags a").click()
    WebDriverWait(browser, 10).until(lambda b: b.current_url.endswith("#tag=physics"))
    assert shown(browser) == ["jet-tagger"]


def test_tabs_by_keyboard(browser: Chrome, url: str) -> None:
    browser.get(url + MODEL)

    def panels() -> list[str]:
        found = browser.find_elements(By.CSS_SELECTOR, "#install-tabs pre")
        return [str(p.get_attribute("aria-label")) for p in found if p.is_displayed()]

    assert panels() == ["Install with pip"]
    find(browser, "#install-1").send_keys(Keys.ARROW_RIGHT)
    assert panels() == ["Install with uv"]
    assert "explicit = true" in find(browser, "#install-tabs").text
    assert f"{url}simple/" in find(browser, "#install-tabs").text
    find(browser, "#install-2").send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert panels() == ["Install with C"]


def test_plots_show_the_measurements(browser: Chrome, url: str) -> None:
    browser.get(url + MODEL)
    bars = browser.find_elements(By.CSS_SELECTOR, ".axes rect.measured")
    heights = [round(bar.rect["height"]) for bar in bars]
    assert len(heights) == 3
    assert heights[0] > heights[1] > heights[2] > 0
    dots = browser.find_elements(By.CSS_SELECTOR, ".errors tbody tr:first-child circle")
    places = [round(dot.rect["x"]) for dot in dots]
    assert len(places) == 3
    assert places == sorted(places)
    assert find(browser, ".errors .limit").rect["x"] > places[-1]


def test_copy_writes_the_install_line(browser: Chrome, url: str) -> None:
    browser.get(url + MODEL)
    allowed = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": allowed})
    button = find(browser, "#install-tabs button")
    button.click()
    WebDriverWait(browser, 10).until(lambda _: button.text == "Copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    api = f"{url}simple/"
    file = f"{api}model-jet-tagger/requirements-1.2.0.txt"
    assert copied.splitlines()[1] == f"pip install --index-url {api} --require-hashes -r {file}"


def test_copy_selects_the_line_where_there_is_no_clipboard(browser: Chrome, url: str) -> None:
    browser.get(url + MODEL)
    denied = {"permission": {"name": "clipboard-write"}, "setting": "denied"}
    browser.execute_cdp_cmd("Browser.setPermission", denied)
    button = find(browser, "#install-tabs button")
    button.click()
    WebDriverWait(browser, 10).until(lambda _: button.text == "Selected")
    selected = browser.execute_script("return window.getSelection().toString()")
    assert selected == find(browser, "#install-tabs code").text


def test_useful_without_javascript(browser: Chrome, url: str) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(url)
    assert len(shown(browser)) == 3
    assert not find(browser, "#search").is_displayed()
    browser.get(url + MODEL)
    assert not find(browser, "#install-tabs button").is_displayed()
    find(browser, "label[for=install-2]").click()
    assert "[tool.uv.sources]" in find(browser, "#install-tabs").text
    find(browser, "#files summary").click()
    assert "SHA-256" in find(browser, "#files").text
    assert COMMIT in find(browser, "#origin").text


@pytest.mark.exhaustive
def test_an_overview_of_500_models(browser: Chrome, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    make_collection(tmp_path / "wheels", 500)
    site = write_site([tmp_path / "wheels"], tmp_path / "site").directory
    assert (site / OVERVIEW).stat().st_size <= 300_000
    with serve(site) as served:
        browser.get(served.url)
        assert len(shown(browser)) == 500
        find(browser, "#query").send_keys("denoiser-01")
        assert find(browser, "#found").text == "2 of 500"
        look(browser, PHONE, "light")
        assert overflow(browser) == 0
