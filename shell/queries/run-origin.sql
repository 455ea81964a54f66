-- Where a run came from: who asked, who approved, when and with what.
-- :id the run's number
SELECT id, op, args, queued_at, asked_by, grant_id, use_of_grant, approval_id, question_at,
       approved_by, approved_at, factor, approved_with, factor_enrolled_at, host_paired_at
  FROM run_origin WHERE id = :id;
