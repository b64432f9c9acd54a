/* Numbers for people: significant digits without an exponent. */
#ifndef K3_REPORT_PLAIN_H
#define K3_REPORT_PLAIN_H

enum { K3_PLAIN = 32 };

/* "26084", "0.02004", "-19.3": `digits` of them, or all in front of the point; zeros at the end are left out. What is
 * too large or too small to be read so has an exponent. `text` is returned. */
const char *k3_plain(double value, int digits, char text[K3_PLAIN]);

/* The same with its sign: "+1.26". */
const char *k3_plain_signed(double value, int digits, char text[K3_PLAIN]);

#endif
