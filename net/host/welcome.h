/* welcome.h: what link does for boxes that came in: the actor that let them in holds no key. */
#ifndef NET_HOST_WELCOME_H
#define NET_HOST_WELCOME_H

struct actor_env;

/**
 * welcome_wake(env):
 * Do what is due with the machine's secret of ${env}: make this machine's own certificates, issue
 * those that boxes ordered, sign for boxes that came in.  What fails is said in the log, and tried
 * again at the next wake.
 */
void welcome_wake(struct actor_env *env);

#endif
