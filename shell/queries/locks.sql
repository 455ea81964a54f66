-- What holds a lock or a place: leases, the daemon, live runs; alive is 0 where the process is dead.
SELECT kind, name, holder, pid, alive, since_at, expires_at
  FROM held_locks ORDER BY kind, name;
