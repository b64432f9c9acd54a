/* Where a record comes from: machine, versions, every option. */
#include <stdint.h>
#include <stdlib.h>

#include "bench/report/fields.h"
#include "bench/report/html_internal.h"

static void print_value(const json_t *value, FILE *out)
{
    char *text;

    if (json_is_string(value)) {
        k3_html_text(json_string_value(value), out);
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    k3_html_text(text != NULL ? text : "", out);
    free(text);
}

static void print_members(const char *title, const json_t *object, FILE *out)
{
    const char *name;
    json_t     *value;

    fputs("<h3>", out);
    k3_html_text(title, out);
    fputs("</h3>\n<table><tbody>\n", out);
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        fputs("<tr>", out);
        k3_html_td(name, "t", out);
        fputs("<td class=\"t wrap\">", out);
        print_value(value, out);
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table>\n", out);
}

void k3_html_origin(const json_t *document, FILE *out)
{
    const json_t *run = json_object_get(document, "run"), *option;
    const json_t *print = json_object_get(document, "fingerprint");
    size_t        i;

    fputs("<h2>Origin</h2>\n<details><summary>Machine, versions and every option</summary>\n", out);
    print_members("Machine (stable)", json_object_get(print, "stable"), out);
    print_members("Machine (volatile)", json_object_get(print, "volatile"), out);
    print_members("Built with", json_object_get(run, "build"), out);
    print_members("Loaded", json_object_get(run, "loaded"), out);
    fputs("<h3>Options</h3>\n<table><thead><tr><th class=t>option</th><th class=t>value</th><th "
          "class=t>from</th></tr></thead><tbody>\n",
          out);
    json_array_foreach(json_object_get(run, "options"), i, option)
    {
        fputs("<tr>", out);
        k3_html_td(k3_get_text(option, "name"), "t", out);
        fputs("<td class=\"t wrap\">", out);
        print_value(json_object_get(option, "value"), out);
        fputs("</td>", out);
        k3_html_td(k3_get_text(option, "origin"), "t", out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>\n</details>\n", out);
}
