"""How code, schema and metrics cite docs/specification.md, for the pages generated from them and for tests/check_specification.py:

    specification.md W5        specification.md B1 to B3, V        specification.md "Bandwidths"
"""
import re

ID = r"(?:[TCIWPSBFGRJ][0-9]{1,2}|G-[A-D]|V)(?![\w-])"
ONE = rf'(?:{ID}|"[^"\n]+")'
CITATION = re.compile(rf"specification\.md ({ONE}(?:(?:, | and | to | - ){ONE})*)")
PAGE_OF_OURS = re.compile(r"\bdocs/([\w/-]+\.md)\b")


def anchor_of(cited):
    """Of W5 or "Bandwidths": the id, or what GitHub makes of a heading."""
    return re.sub(r"[^\w-]", "", cited.strip('"').lower().replace(" ", "-"))


def cited_in(text):
    """Everything that a text cites, as it stands there."""
    return [one for citation in CITATION.finditer(text) for one in re.findall(ONE, citation[1])]


def link_ids(text, page):
    """Markdown: every id or "Heading" of the text becomes a link into the specification at `page`."""
    return re.sub(rf"\b{ID}|\"[^\"\n]+\"", lambda one: f"[{one[0]}]({page}#{anchor_of(one[0])})", text)


def linked(text, docs):
    """Markdown: citations in a text become links, and so do pages of docs/, which is at `docs` from the page that the text will stand on."""
    text = PAGE_OF_OURS.sub(lambda page: f"[{page[0]}]({docs}/{page[1]})", text)
    return CITATION.sub(lambda citation: "specification.md " + link_ids(citation[1], f"{docs}/specification.md"), text)
