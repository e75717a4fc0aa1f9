"""Survivors that no test can find: `module:function:kind:number` and why.

Mostly mutants that are the same program: a bound that is never met exactly, a shortcut whose long way gives the same.
"""

EXPLAINED: dict[str, str] = {
    "broker.pull_rules:check_needed:constant:2": "both tuples are written out, with one name for each value",
    "broker.pull_rules:_wanted:constant:1": "a pull without flags was refused before, and 1 is another flag",
    "ha.replicas:Replicas.report:compare:1": "a report that was there already sets the same and releases nobody",
}
