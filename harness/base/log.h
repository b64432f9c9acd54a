/* Messages for people, on stderr, one write per line so that ranks do not cut each other's lines.
 * A line starts with "k3bench: " and, once the rank is known, "rank N: ". */
#ifndef K3_BASE_LOG_H
#define K3_BASE_LOG_H

void k3_log_set_rank(int rank); /* -1: no rank in front */
void k3_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void k3_log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void k3_log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
