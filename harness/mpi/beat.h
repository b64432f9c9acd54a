/* How fast is this processor just now? A beat: 4096 steps of 14 chains of a multiplication and an addition, then one
 * word of each cache line of 2 MiB. On shared or throttled machines its time moves with that of everything else that
 * computes and reads weights; strangers who take the shared cache are seen by its second half only. */
#ifndef K3_MPI_BEAT_H
#define K3_MPI_BEAT_H

/* Times are scaled to a machine on which a beat takes this long. */
#define K3_BEAT_NOMINAL_US 100.0

double k3_beat(void); /* does one; how long it took, us */

#endif
