-- id: straggler_individual
-- name: Straggler score against its own past
-- unit: ratio
-- better: higher
-- scope: rank
-- source: specification.md R2 (NVRx), of sections that are annotated
-- sentence: Median time of each section of this rank in its best fifth of the steady steps over that in the last fifth, weighted by the time it spends in it. Below 0.75 NVRx calls a rank a straggler.
SELECT rank, individual AS value, coalesce(individual_why, why) AS why FROM section_score WHERE world = :world ORDER BY rank
