"""163 programs of many libraries: how many are exported, served, compiled and promoted, and what that gains.

program     what a program is: a module, its inputs, the sizes it is asked for
programs    the 163, by the library they come from
exporting   the first stage, in an environment and a process of its own
stages      the others: served eager, compiled, timed beside eager
outcome     what became of a program, in one word and one reason
table, page what became of all of them, for a terminal and for a browser
"""
