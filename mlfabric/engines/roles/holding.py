"""How a run stands still for as long as all its hosts note where they are.

Whoever leads asks those that decide what is applied (a policy's coordinators; under a collective
all workers) to hold. Each answers, and decides nothing until it is told to go on; transfers and
computations under way go on meanwhile. Then every host is asked to save, once what it computes is
done. What is on its way between hosts is in no state: as the run goes on from there, every worker
has the server's model, and updates that this does not hold count as dropped.

A server has applied all that was decided before it saves, so no worker can know of more than that;
and nothing that a worker does after it has saved is applied before all have.
"""

from __future__ import annotations

HOLD, HOLDING, GO_ON = "hold", "holding", "go_on"
"""Messages: to whoever decides; from there, with the iteration after which a collective's worker
does nothing (of others 0); and once all have saved, or cannot."""
