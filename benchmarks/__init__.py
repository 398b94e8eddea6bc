"""Benchmarks beside other libraries: every claim about speed, measured again on your machine.

    python -m benchmarks --quick      a taste, under two minutes
    python -m benchmarks              every claim, under half an hour
    python -m benchmarks --only w2    one family
    python -m benchmarks.cores        long histories on 1, 2, 4 and 8 threads, half an hour or more

`workloads` are the problems, `peers` the programs that solve them, `cases` the claims: who runs what, for how long, and
which bar ours has to pass. `duel` lets the contestants of one case run in turn inside one worker process with a fixed
number of threads, `sessions` and `checkpoints` are ways of measuring one, `timing` holds the arithmetic; `table` and
`plots` write what was found.

What is timed is what a user calls: `choose` and `learn`, from Python, in every round, checks included. Drawing contexts
and rewards is not timed. Where a peer computes the same model, its choice is compared with ours in every round that it
plays, and a difference ends the command with an error.
"""
