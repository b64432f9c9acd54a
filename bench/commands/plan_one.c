/* One cell of a plan: its traffic, work and memory, and on a machine its times. */
#include "bench/commands/plan_model.h"
#include "bench/plan/buffers.h"
#include "bench/report/prediction.h"
#include "bench/report/record.h"

static json_t *plan_only(const k3_cell_t *cell, const k3_memory_t *memory, k3_error_t *err)
{
    k3_work_t work;

    return k3_work_plan(cell, &work, err) == K3_OK ? k3_record_plan(cell, &work, memory) : NULL;
}

static json_t *plan_and_predict(const k3_cell_t *cell, const k3_machine_file_t *machine,
                                const k3_memory_t *memory, k3_error_t *err)
{
    k3_loads_t      loads;
    k3_work_t       work;
    k3_prediction_t prediction;
    json_t         *object;

    if (k3_loads_and_work(cell, &loads, &work, err) != K3_OK) {
        return NULL;
    }
    k3_predict(cell, &loads, machine, &prediction);
    k3_loads_free(&loads);
    object = k3_record_plan(cell, &work, memory);
    json_object_set_new(object, "prediction", k3_record_prediction(cell, machine, &prediction));
    json_object_set_new(json_object_get(object, "memory"), "device",
                        k3_record_device(cell, memory, machine));
    return object;
}

static k3_status_t add_simulation(const k3_cell_t *cell, const k3_machine_file_t *machine,
                                  json_t *object, k3_error_t *err)
{
    k3_simulation_t simulation;

    if (k3_simulate(cell, machine, &simulation, err) == K3_OK) {
        json_object_set_new(object, "simulation", k3_record_simulation(&simulation));
    }
    return err->status;
}

k3_status_t k3_plan_one(const k3_cell_request_t *request, const k3_machine_file_t *machine,
                        bool simulate, json_t **object_p, k3_error_t *err)
{
    k3_cell_t   cell;
    k3_memory_t memory;

    *object_p = NULL;
    if (k3_cell_create(request, &cell, err) != K3_OK) {
        return err->status;
    }
    k3_memory_largest(&cell, &memory);
    *object_p = machine != NULL ? plan_and_predict(&cell, machine, &memory, err)
                                : plan_only(&cell, &memory, err);
    if (simulate && err->status == K3_OK) {
        add_simulation(&cell, machine, *object_p, err);
    }
    k3_cell_destroy(&cell);
    if (err->status != K3_OK) {
        json_decref(*object_p);
        *object_p = NULL;
    }
    return err->status;
}
