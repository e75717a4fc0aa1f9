"""The timeline and the page of a broken promise."""

from __future__ import annotations

import json
import re

from skyrocketmq.testing.simulation.checks import check
from skyrocketmq.testing.simulation.page import render_page
from skyrocketmq.testing.simulation.telling import timeline
from tests.simulation.story import QUEUE_OF_OTHERS, Story


def broken_run() -> Story:
    story = Story(slave=True, others=False).begin_member().begin_member("c2", "others")
    for number in range(60):
        story.begin_send(f"x{number}").answer(f"x{number}", number, queue=QUEUE_OF_OTHERS).wait(0.02)
        for node, group in (("c1", "g"), ("c2", "others")):
            story.consume(f"x{number}", number, queue=QUEUE_OF_OTHERS, node=node, group=group)
    story.begin_send("m1").consume("m1", 0).fault("power cut", lasting_s=1.5).end_broker("power cut").begin_broker()
    story.wait(0.4).send("m2", 0).consume("m2", 0).consume("m2", 0, node="c2", group="others").store("m2", 0)
    for number in range(60):
        story.store(f"x{number}", number, queue=QUEUE_OF_OTHERS)
    return story.end()


def test_a_timeline_tells_what_matters_and_marks_the_place() -> None:
    story = broken_run()
    [violation] = check(story.history)
    text = timeline(story.history, violation)
    assert violation.check == "one offset, one message"
    assert [line for line in text.splitlines() if line.startswith(">>")] == [
        line for line in text.splitlines() if "m2 answered SEND_OK at T@a:0+0" in line
    ]
    for words in ("plain send of m1 to T", "begins m1 from T@a:0+0", "power cut", "serves as", "send of m2"):
        assert words in text
    assert "x30" not in text  # another queue has no part in it


def test_a_long_timeline_keeps_its_end() -> None:
    story = broken_run()
    [violation] = check(story.history)
    text = timeline(story.history, violation, lines_max=4)
    assert text.startswith("  ... ")
    assert len(text.splitlines()) == 5


def test_what_is_missing_at_the_end_is_said_at_the_end() -> None:
    story = Story().send("m1", 0).end()
    [violation] = check(story.history)
    assert timeline(story.history, violation).splitlines()[-1].startswith(">>  at the end")


def test_the_page_has_everything_in_it_and_loads_nothing() -> None:
    story = broken_run()
    page = render_page(story.history, check(story.history), plan="one fault </script> & no more")
    assert not re.search(r"(src|href)\s*=|@import|url\(|fetch\(", page)
    assert page.count("</script>") == 1
    [block] = re.findall(r"^const data = (.*);$", page, re.MULTILINE)
    data = json.loads(block.replace("<\\/", "</"))
    assert data["plan"] == "one fault </script> & no more"
    assert [lane["name"] for lane in data["lanes"]] == ["p", "m", "s", "c1", "c2"]
    assert [violation["check"] for violation in data["violations"]] == ["one offset, one message"]
    assert [band["text"] for band in data["bands"]] == ["power cut"]
    assert sum(mark["broken"] for mark in data["marks"]) == 1
