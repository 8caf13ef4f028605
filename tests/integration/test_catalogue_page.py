"""The catalogue in a real browser: what it shows, search, copying, and a phone's width."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from modelwheel.index.site import write_site
from tests.support.index_wheels import COMMIT, add_measurements, make_wheel
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

PHONE = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("wheels")
    add_measurements(make_wheel(directory, "jet-tagger"))
    add_measurements(make_wheel(directory, "digits"))
    make_wheel(directory, "a-model-with-quite-a-long-name-that-wraps-on-a-phone")
    site = write_site([directory], tmp_path_factory.mktemp("out") / "site")
    with serve(site.directory) as served:
        yield served.url


@pytest.fixture
def browser(url: str, tmp_path: Path) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = str(BROWSER)
    for switch in [*SWITCHES, f"user-data-dir={tmp_path / 'profile'}", "window-size=1100,1400"]:
        options.add_argument(f"--{switch}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = Chrome(options, ChromeService(DRIVER))
    try:
        chrome.get(url)
        yield chrome
    finally:
        chrome.quit()


def shown(browser: Chrome) -> list[str]:
    articles = browser.find_elements(By.TAG_NAME, "article")
    return [str(a.get_attribute("id")) for a in articles if a.is_displayed()]


def find(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def read_log(browser: Chrome, kind: str) -> list[dict[str, Any]]:
    return list(browser.get_log(kind))  # type: ignore[no-untyped-call]


def requested_hosts(browser: Chrome, page: str) -> set[str | None]:
    """The hosts that a page had something sent from; the browser's own first tab is none of ours."""
    messages = [json.loads(e["message"])["message"] for e in read_log(browser, "performance")]
    sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls = [urlsplit(p["request"]["url"]) for p in sent if p["documentURL"].startswith(page)]
    return {parts.hostname for parts in urls if parts.scheme != "data"}


def overflow(browser: Chrome) -> int:
    """CSS pixels by which the page is wider than the window."""
    width = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    return int(browser.execute_script(f"return {width}"))


def test_content_without_complaint_or_other_hosts(
    browser: Chrome, url: str, tmp_path: Path
) -> None:
    article = find(browser, "#model-jet-tagger")
    assert "What jet-tagger does" in article.text
    assert "within tolerance" in article.text
    assert COMMIT not in article.text
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert COMMIT in article.text
    plots = article.find_elements(By.CSS_SELECTOR, ".plot rect.value")
    widths = [round(bar.rect["width"]) for bar in plots]
    assert len(widths) == 4
    assert 0 < widths[0] < widths[1]
    assert widths[2] > widths[3] > 0
    assert browser.save_screenshot(str(tmp_path / "catalogue.png"))
    assert read_log(browser, "browser") == []
    assert requested_hosts(browser, url) == {"127.0.0.1"}


def test_search_filters(browser: Chrome) -> None:
    assert len(shown(browser)) == 3
    query = find(browser, "#query")
    query.send_keys("DIGITS keyword")
    assert shown(browser) == ["model-digits"]
    assert find(browser, "#found").text == "1 of 3"
    query.send_keys(" absent")
    assert shown(browser) == []
    assert find(browser, "#nothing").is_displayed()
    query.clear()
    query.send_keys(COMMIT[:12])
    assert len(shown(browser)) == 3
    assert read_log(browser, "browser") == []


def test_copy_writes_the_install_line(browser: Chrome, url: str) -> None:
    allowed = ["clipboardReadWrite", "clipboardSanitizedWrite"]
    browser.execute_cdp_cmd("Browser.grantPermissions", {"permissions": allowed})
    button = find(browser, "#model-digits button")
    button.click()
    WebDriverWait(browser, 10).until(lambda _: button.text == "Copied")
    copied = browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    api = f"{url}simple/"
    file = f"{api}model-digits/requirements-1.0.0.txt"
    assert copied == f"pip install --index-url {api} --require-hashes -r {file}"


def test_copy_selects_the_line_where_there_is_no_clipboard(browser: Chrome) -> None:
    denied = {"permission": {"name": "clipboard-write"}, "setting": "denied"}
    browser.execute_cdp_cmd("Browser.setPermission", denied)
    button = find(browser, "#model-digits button")
    button.click()
    WebDriverWait(browser, 10).until(lambda _: button.text == "Selected")
    selected = browser.execute_script("return window.getSelection().toString()")
    assert selected == find(browser, "#model-digits .install code").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_need_not_scroll_sideways(browser: Chrome, tmp_path: Path, scheme: str) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.save_screenshot(str(tmp_path / f"phone-{scheme}.png"))
    assert browser.execute_script("return window.innerWidth") == PHONE["width"]
    assert overflow(browser) == 0


def test_useful_without_javascript(browser: Chrome) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.refresh()
    assert len(shown(browser)) == 3
    assert not find(browser, "#search").is_displayed()
    assert not find(browser, "#model-digits button").is_displayed()
    find(browser, "#model-digits details:last-of-type summary").click()
    assert COMMIT in find(browser, "#model-digits").text
