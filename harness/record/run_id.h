/* A name that nothing else has. */
#ifndef K3_RECORD_RUN_ID_H
#define K3_RECORD_RUN_ID_H

/* 16 random hex digits, `text` holds 17 bytes. */
void k3_run_id(char text[17]);

#endif
