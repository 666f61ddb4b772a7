"""
metrics.py openmetrics FILE: reads the text with the parser of Prometheus' client, and checks what tests/metrics-t.sh has
put into it. metrics.py dashboard JSON FILE: whether every metric that the dashboard asks for is in the text.
"""
import json
import re
import sys


def openmetrics(path):
    from prometheus_client.openmetrics import parser

    with open(path, encoding="utf-8") as text:
        families = list(parser.text_string_to_metric_families(text.read()))
    samples = [sample for family in families for sample in family.samples]
    seen = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples]
    assert len(seen) == len(set(seen)), "a series is there twice"
    tags = {sample.labels["tag"] for sample in samples if "tag" in sample.labels}
    wanted = {"step", 'step/a"b', "step/c\\d", "step/line\nend", "step/\\xffb", "step/twice"}
    assert tags == wanted, tags ^ wanted
    assert {sample.labels.get("run") for sample in samples if "rank" in sample.labels} == {'bert "large"\n}'}


def dashboard(path, text):
    with open(path, encoding="utf-8") as file:
        board = json.load(file)
    with open(text, encoding="utf-8") as file:
        known = set(re.findall(r"^(tidemark_\w+)[{ ]", file.read(), re.M))
    known |= {"tidemark_dead_seconds", "tidemark_limit_bytes", "tidemark_left_out"}
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    asked += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    names = set(re.findall(r"\btidemark_\w+", " ".join(asked)))
    assert names and names <= known, names - known
    assert len({panel["id"] for panel in panels}) == len(panels)


{"openmetrics": openmetrics, "dashboard": dashboard}[sys.argv[1]](*sys.argv[2:])
