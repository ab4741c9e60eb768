"""A page of `ddl report --html`, read by a real HTML parser (html5lib, strict): what must hold of every one, whatever the run holds."""
import base64
import hashlib
import re

import html5lib

TAGS = set("html head meta title style body a header h1 h2 h3 p span nav main section ol ul li strong meter details summary div dl dt dd figure figcaption svg "
           "desc g rect path circle text table thead tbody tr th td code defs pattern".split())
ATTRIBUTES = set("lang charset http-equiv content name href class id aria-label aria-labelledby aria-hidden role tabindex start min max value scope viewBox x y "
                 "width height d cx cy r text-anchor transform patternUnits".split())
# Control characters, zero-width and bidirectional ones: written out, never as they are.
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class Page:
    def __init__(self, data):
        self.size = len(data)
        self.text = data.decode("utf-8")  # strict: a byte that is not UTF-8 is a failure
        self.root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(self.text)

    def all(self, tag):
        return [e for e in self.root.iter() if name_of(e) == tag]

    def words(self):
        return "".join(self.root.itertext())

    def check(self):
        assert not INVISIBLE.search(self.text), INVISIBLE.search(self.text)
        ids = []
        for element in self.root.iter():
            assert name_of(element) in TAGS, element.tag
            for key, value in element.attrib.items():
                assert key in ATTRIBUTES, (element.tag, key)
                if key == "href":
                    assert value.startswith("#"), value
                if key == "id":
                    ids.append(value)
        assert len(ids) == len(set(ids)), [i for i in ids if ids.count(i) > 1]
        for link in self.all("a"):
            assert link.attrib["href"][1:] in ids, link.attrib
        self.check_policy()
        for figure in self.all("figure"):
            self.check_figure(figure, ids)

    def check_policy(self):
        policy = [m.attrib["content"] for m in self.all("meta") if m.attrib.get("http-equiv") == "Content-Security-Policy"]
        (style,) = self.all("style")
        digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
        assert policy == [f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"], policy
        assert not re.search(r"@import|url\((?!#)|expression", style.text)

    def check_figure(self, figure, ids):
        tags = [name_of(e) for e in figure.iter()]
        assert tags.count("figcaption") == 1 and tags.count("svg") == 1 and tags.count("table") == 1, tags
        caption = next(e for e in figure.iter() if name_of(e) == "figcaption")
        assert len(caption.text) > 20, caption.text
        svg = next(e for e in figure.iter() if name_of(e) == "svg")
        assert svg.attrib["role"] == "img"
        title, desc = svg[0], svg[1]
        assert (name_of(title), name_of(desc)) == ("title", "desc") and title.text and desc.text
        assert svg.attrib["aria-labelledby"] == f"{title.attrib['id']} {desc.attrib['id']}"
        rows = [e for e in figure.iter() if name_of(e) == "tr"]
        assert len(rows) > 1, "a figure without numbers"
        for element in svg.iter():  # what was computed from nothing
            assert not any(word in value for word in ("nan", "inf", "e+", "e-") for key, value in element.attrib.items() if key in ("d", "x", "y", "width", "height", "cx", "cy")), element.attrib


def name_of(element):
    return element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else "#comment"
