"""Mutation runs: break a rule in the code, and see whether a test notices.

    make mutate                       every target module, resumed where the last run ended
    make mutate MODULES=ha.rules      one module, or several with commas
    make mutate SECONDS=600 JOBS=2    for so long, with so many at once

`mutants` lists what can be broken in a module, `covering` finds which tests run through which function, `judging` runs
those tests on each mutant, `results` keeps what came out, `targets` says which modules, and `explained` holds the
survivors that no test can find, each with its reason. A survivor that is not explained makes the run fail.
"""
