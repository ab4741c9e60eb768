"""What the files of `ddl tune` say of the gain, against their manifest."""
import json
import re


def gains(directory):
    """By file: (ratio, lo, hi, rounds, noise_lo, noise_hi) as its head has them, None where it says that there is none."""
    said = {}
    for file in json.loads((directory / "manifest.json").read_text())["files"]:
        if file["name"] == "tuned.env0":
            continue  # for xargs -0: no comments
        text = re.sub(r"\n#\s+", " ", (directory / file["name"]).read_text(errors="replace"))  # wrapped
        gain = re.search(r"gain:\s+(?:([0-9.]+) times the default's .*?\(.*? ([0-9.]+) \.\. ([0-9.]+) over (\d+) paired rounds.*?; the default against itself ([0-9.]+) \.\. "
                         r"([0-9.]+)\)|none, nothing is changed: \S)", text)
        said[file["name"]] = "no gain is told" if gain is None else tuple(map(float, gain.groups())) if gain[1] else None
    return said


def manifests_gain(directory):
    gain = json.loads((directory / "manifest.json").read_text())["gain"]
    return gain and tuple(round(gain[name], 3) for name in ("ratio", "lo", "hi", "rounds", "noise_lo", "noise_hi"))
