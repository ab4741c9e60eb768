-- id: straggler_relative
-- name: Straggler score against the other ranks
-- unit: ratio
-- better: higher
-- scope: rank
-- source: specification.md R1 (NVRx), of sections that are annotated
-- sentence: Median time of each section (layers, else phases, else the step; without MPI) on the fastest rank over that on this one, weighted by the time this one spends in it. Below 0.75 NVRx calls a rank a straggler.
SELECT rank, relative AS value, why FROM section_score WHERE world = :world ORDER BY rank
