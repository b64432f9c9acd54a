#include "bench/commands/verdict_print.h"

#include <string.h>

#include "harness/record/document.h"

typedef struct markdown {
    const json_t     *document;
    k3_verdict_form_t form;
} markdown_t;

static int fill_markdown(FILE *file, const void *arg)
{
    const markdown_t *m = arg;

    m->form(m->document, file);
    return 0;
}

k3_status_t k3_verdict_print(const json_t *document, const char *path, k3_verdict_form_t text,
                             k3_verdict_form_t markdown, k3_error_t *err)
{
    const char *ending = path != NULL ? strrchr(path, '.') : NULL;
    markdown_t  m = {document, markdown};

    if (path == NULL) {
        text(document, stdout);
        return K3_OK;
    }
    if (strcmp(path, "-") == 0 || (ending != NULL && strcmp(ending, ".json") == 0)) {
        return k3_document_write(document, path, err);
    }
    if (ending != NULL && strcmp(ending, ".md") == 0) {
        return k3_file_write(path, fill_markdown, &m, err);
    }
    return k3_fail(err, K3_ERR_USAGE, "output: \"%s\" ends in none of .md, .json", path);
}
