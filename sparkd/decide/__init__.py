"""The decision: (state, snapshot, intent, policy, now) -> Decision. Pure: no clock, no I/O, no randomness.

`machine.step` is the only entry. Read `machine` first, then the phases in their order.

machine       which phase decides, and what people want before any phase
case          what one decision looks at, and the few ways in which it can be said
group         the ranks of one deployment in one look: what runs where, of which generation, and what is unread

Phases
standing      stopped, adopting, backoff, held, paused: whether to leave one of these
starting      whether a start may begin, what must be cleaned first, and the number of its generation
launching     which rank is started next, when the engine is ready, and whether its first answer counts
serving       whether to send a canary, to go on, or to end this generation
teardown      what must still be stopped, saved or removed until nothing of a group is left

Nodes
hardware      a node that answers pings alone, what a check found broken, and whether it was mended
maintenance   planned work on a node: drain, stop in order, hold, go on
upkeep        when that work is over, and whether a node is gone so surely that its power may be taken

What a start needs
prechecks     whether what the checks found holds it
needs         which image, path, user or port is known to be missing
memory_need   how much memory each node has for its rank, and who has the rest
memory_gate   whether that is enough, measured after the cleanup
memory_back   whether memory of what ended is still coming back
strays        who has a port or outlived its container, and whether sparkd may end it
where_to_ask  on which node an engine may be asked for its parser now

What a start does
stages        how far it has come, whether a stage takes longer than it ever did, and what is learned of it
movement      whether its ranks do anything: CPU time, bytes, lines of the log
peers         which rank waits for another one that cannot come

What serves
evidence      whether it still serves: each kind of evidence with its own clock and limit
sanity        whether the fixed question is due, what its answer says, and what follows from nonsense
nonsense      whether an answer to it makes sense
doubts        which ranks and peers speak against it, in words
working       since when nothing is answered although a node works, and what a node draws while its ranks wait
busyness      whether a node works for its ranks or only waits, from two looks at it
cpu_time      how many cores a rank used between two looks, and how many of them its compilers
memory_low    whether a node's memory runs out, by its last looks
memory_taker  who takes it
memory_drain  whether memory becomes less and less while nobody asks anything
memory_guard  what is told of that, and which group is stopped before its node locks up
loss          whether a rank, a node or a head is gone for certain
outages       when an outage began, what caused it, and when it ended

What failed
classify      of which kind an exit or a refused start is
failing       what follows: a pause, another measurement, or a hold
budget        how long the pause is, and whether one more start is allowed
holds         what holds a deployment, and whether that has passed
rules         which rule stands behind a reason code, in words, with the numbers that are set
"""
