#include "machine/machine.h"

static void write_fuses_epilogue(const stw_device *device, stw_json_writer *writer) {
    bool begun = false; /* left out when there are none */
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        if (!device->fuses_epilogue[c]) continue;
        if (!begun) {
            stw_json_write_key(writer, "fuses_epilogue");
            stw_json_begin_array(writer);
            begun = true;
        }
        stw_json_write_string(writer, stw_str_of(stw_op_class_name((stw_op_class)c)));
    }
    if (begun) stw_json_end_array(writer);
}

static void write_latency(const stw_device *device, stw_json_writer *writer) {
    bool begun = false; /* left out when there is none */
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        if (!(device->latency_us[c] > 0.0)) continue;
        if (!begun) {
            stw_json_write_key(writer, "latency_us");
            stw_json_begin_object(writer);
            begun = true;
        }
        stw_json_field_double(writer, stw_op_class_name((stw_op_class)c), device->latency_us[c]);
    }
    if (begun) stw_json_end_object(writer);
}

static void write_device(const stw_device *device, stw_json_writer *writer) {
    stw_json_begin_object(writer);
    stw_json_field_string(writer, "name", device->name);
    stw_json_field_string(writer, "kind", device->kind);
    stw_json_field_int64(writer, "memory_bytes", device->memory_bytes);
    stw_json_field_double(writer, "launch_us", device->launch_us);
    stw_json_write_key(writer, "flops_per_s");
    stw_json_begin_object(writer);
    stw_json_field_double(writer, "f32", device->flops_f32);
    if (device->flops_tf32 > 0.0) stw_json_field_double(writer, "tf32", device->flops_tf32);
    if (device->flops_bf16 > 0.0) stw_json_field_double(writer, "bf16", device->flops_bf16);
    stw_json_end_object(writer);
    stw_json_field_double(writer, "bandwidth_bytes_per_s", device->bandwidth);
    stw_json_write_key(writer, "efficiency"); /* every class, so that later fits do not change the file's meaning */
    stw_json_begin_object(writer);
    for (int32_t c = 0; c < STW_CLASS_COUNT; c++) {
        stw_json_field_double(writer, stw_op_class_name((stw_op_class)c), device->efficiency[c]);
    }
    stw_json_end_object(writer);
    write_latency(device, writer);
    write_fuses_epilogue(device, writer);
    stw_json_end_object(writer);
}

static void write_rates(const stw_link *link, stw_json_writer *writer) {
    stw_json_write_key(writer, "bandwidth_bytes_per_s");
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < link->rate_count; k++) {
        stw_json_begin_array(writer);
        stw_json_write_double(writer, link->rates[k].bytes);
        stw_json_write_double(writer, link->rates[k].rate);
        stw_json_end_array(writer);
    }
    stw_json_end_array(writer);
}

static void write_link(const stw_machine *machine, int32_t from, int32_t to, stw_json_writer *writer) {
    const stw_link *link = stw_machine_link(machine, from, to);
    stw_json_begin_object(writer);
    stw_json_field_string(writer, "from", machine->device[from].name);
    stw_json_field_string(writer, "to", machine->device[to].name);
    if (link->rates == NULL) {
        stw_json_field_double(writer, "bandwidth_bytes_per_s", link->bandwidth);
    } else {
        write_rates(link, writer);
    }
    stw_json_field_double(writer, "latency_us", link->latency_us);
    if (link->send_us > 0.0) stw_json_field_double(writer, "send_us", link->send_us);
    if (link->receive_us > 0.0) stw_json_field_double(writer, "receive_us", link->receive_us);
    if (link->bus >= 0) stw_json_field_string(writer, "bus", machine->bus_name[link->bus]);
    stw_json_end_object(writer);
}

void stw_machine_write(const stw_machine *machine, stw_json_writer *writer) {
    stw_json_begin_object(writer);
    stw_json_field_string(writer, "format", STW_STR("machine"));
    stw_json_field_int64(writer, "version", 1);
    stw_json_field_string(writer, "name", machine->name);
    stw_json_field_string(writer, "contention", machine->queues ? STW_STR("queue") : STW_STR("none"));
    if (machine->host >= 0) stw_json_field_string(writer, "host", machine->device[machine->host].name);
    stw_json_write_key(writer, "devices");
    stw_json_begin_array(writer);
    for (int32_t d = 0; d < machine->device_count; d++) {
        stw_json_newline(writer);
        write_device(&machine->device[d], writer);
    }
    stw_json_end_array(writer);
    stw_json_write_key(writer, "links");
    stw_json_begin_array(writer);
    for (int32_t from = 0; from < machine->device_count; from++) {
        for (int32_t to = 0; to < machine->device_count; to++) {
            if (stw_machine_link(machine, from, to)->bandwidth <= 0.0) continue;
            stw_json_newline(writer);
            write_link(machine, from, to, writer);
        }
    }
    stw_json_end_array(writer);
    stw_json_end_object(writer);
}
