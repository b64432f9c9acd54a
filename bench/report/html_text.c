/* Texts of the page. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "bench/report/html_internal.h"

void k3_html_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

void k3_html_format(FILE *out, const char *format, ...)
{
    char    text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    k3_html_text(text, out);
}

const char *k3_html_us(double us, char text[32])
{
    snprintf(text, 32,
             us >= 1e7      ? "%.3g"
             : us >= 1000.0 ? "%.0f"
             : us >= 100.0  ? "%.1f"
                            : "%.3g",
             us);
    return text;
}

void k3_html_td(const char *text, const char *class, FILE *out)
{
    fprintf(out, "<td class=\"%s\">", class);
    k3_html_text(text, out);
    fputs("</td>", out);
}

void k3_html_real(double value, FILE *out)
{
    double size = fabs(value);

    fprintf(out, size >= 1e4 && size < 1e9 ? "%.0f" : "%.5g", value);
}

void k3_html_number(const json_t *value, FILE *out)
{
    if (json_is_integer(value)) {
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        k3_html_real(json_real_value(value), out);
    }
}
