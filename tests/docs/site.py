#!/usr/bin/env python3
"""tools/site: every link of the site leads to a file and an anchor that are there, every page is in the search, and
README's groups are its navigation."""
import json
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path

import job

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.text = [], {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.links += [value for name, value in attributes.items() if name in ("href", "src") and value]
        self.anchors |= {
            value for name, value in attributes.items() if value and (name == "id" or (tag, name) == ("a", "name"))
        }


def lost_links(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in sorted(pages.items()):
        if path.name == "404.html":  # its links are those of the server's root
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            place = f"{path.relative_to(site)}: {link}"
            if not target.is_relative_to(site) or not target.is_file():
                yield f"{place}: no such file"
            elif target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors | {"__comments"}:
                yield f"{place}: no such anchor"


def links_lead_somewhere(folder):
    if not Path("/usr/bin/mkdocs").exists() or not Path("/usr/share/doc/mkdocs-material").exists():
        raise job.Skip("no mkdocs, or not its theme material (tools/setup site)")
    site = (folder / "site").resolve()
    done = job.run([ROOT / "tools" / "site", "--as-it-is", site], check_rc=0)
    print(done.stdout, end="")
    lost = list(lost_links(site))
    job.check(not lost, "\n".join(lost[:50]))
    found = {
        entry["location"].split("#")[0]
        for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]
    }
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = str(page.relative_to(ROOT)).removesuffix(".md").removesuffix("README")
        job.check(
            f"{name}.html" in found or name in found or f"{name}index.html" in found, f"{name}: not in the search"
        )
    index = (site / "index.html").read_text()
    for group in ("Start", "Your framework", "Your cluster", "Make it faster", "Reference", "Work on it"):
        job.check(group in index, f"no group '{group}' in the navigation")
    job.check(
        job.run([ROOT / "tools" / "site", "--as-it-is", ROOT / "docs"]).returncode == 1,
        "a folder that is no site was overwritten",
    )


def notices(folder):
    """Links that lead nowhere are told."""
    (folder / "a.html").write_text(
        '<a href="b.html#here">b</a><a href="c.html">c</a><a href="#gone">x</a><img src="/no.png">'
        '<a href="https://x.y/z">z</a>'
    )
    (folder / "b.html").write_text('<h1 id="here">b</h1><a href="a.html">a</a>')
    lost = [line.split(": ")[1] for line in lost_links(folder.resolve())]
    job.check(lost == ["c.html", "#gone", "/no.png"], f"{lost}")


if __name__ == "__main__":
    job.main(notices, links_lead_somewhere)
