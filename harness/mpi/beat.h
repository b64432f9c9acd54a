/* How fast is this processor just now? A fixed piece of arithmetic, which knows no data and no caches: a beat. On
 * shared or throttled machines its time moves with that of everything else that computes. */
#ifndef K3_MPI_BEAT_H
#define K3_MPI_BEAT_H

/* Times are scaled to a machine on which a beat takes this long. */
#define K3_BEAT_NOMINAL_US 50.0

double k3_beat(void); /* does one; how long it took, us */

#endif
