// The fields of a job with their names: the single list for writing and reading a job.
//
// `visit(name, field)` is called for each field in the order of its struct. Structured bindings
// name every field, so a new field does not compile without a line here.

#pragma once

#include "runtime/job/job.hpp"

namespace troupe::runtime {

template <class Visitor>
void visit_fields(Visitor& visit, muon_settings& x) {
  auto& [momentum,
         nesterov,
         split_qkv,
         scale,
         extra_scale,
         coefficients,
         steps,
         tensor_mode,
         others]
      = x;
  visit("momentum", momentum);
  visit("nesterov", nesterov);
  visit("split_qkv", split_qkv);
  visit("scale", scale);
  visit("extra_scale", extra_scale);
  visit("coefficients", coefficients);
  visit("steps", steps);
  visit("tensor_mode", tensor_mode);
  visit("others", others);
}

template <class Visitor>
void visit_fields(Visitor& visit, optimizer_settings& x) {
  auto& [beta1,
         beta2,
         epsilon,
         weight_decay,
         clip,
         moments_from,
         style,
         start,
         samples,
         kind,
         sgd_momentum,
         lion_beta1,
         lion_beta2,
         muon]
      = x;
  visit("beta1", beta1);
  visit("beta2", beta2);
  visit("epsilon", epsilon);
  visit("weight_decay", weight_decay);
  visit("clip", clip);
  visit("moments_from", moments_from);
  visit("weight_decay_style", style);
  visit("start_weight_decay", start);
  visit("weight_decay_samples", samples);
  visit("kind", kind);
  visit("sgd_momentum", sgd_momentum);
  visit("lion_beta1", lion_beta1);
  visit("lion_beta2", lion_beta2);
  visit("muon", muon);
}

template <class Visitor>
void visit_fields(Visitor& visit, rate_schedule& x) {
  auto& [maximum,
         minimum,
         warmup_start,
         warmup,
         decay,
         style,
         end_style,
         end_decay,
         decoupled_maximum,
         decoupled_minimum]
      = x;
  visit("maximum", maximum);
  visit("minimum", minimum);
  visit("warmup_start", warmup_start);
  visit("warmup", warmup);
  visit("decay", decay);
  visit("style", style);
  visit("end_style", end_style);
  visit("end_decay", end_decay);
  visit("decoupled_maximum", decoupled_maximum);
  visit("decoupled_minimum", decoupled_minimum);
}

template <class Visitor>
void visit_fields(Visitor& visit, rate_change& x) {
  auto& [step, factor] = x;
  visit("step", step);
  visit("factor", factor);
}

template <class Visitor>
void visit_fields(Visitor& visit, batch_step& x) {
  auto& [from, size] = x;
  visit("from", from);
  visit("size", size);
}

template <class Visitor>
void visit_fields(Visitor& visit, batch_schedule& x) {
  auto& [micro, global, data_parallel, ramp_start, ramp_increment, ramp_samples, steps] = x;
  visit("micro", micro);
  visit("global", global);
  visit("data_parallel", data_parallel);
  visit("ramp_start", ramp_start);
  visit("ramp_increment", ramp_increment);
  visit("ramp_samples", ramp_samples);
  visit("steps", steps);
}

template <class Visitor>
void visit_fields(Visitor& visit, loss_scaling& x) {
  auto& [constant, initial, minimum, window, hysteresis] = x;
  visit("constant", constant);
  visit("initial", initial);
  visit("minimum", minimum);
  visit("window", window);
  visit("hysteresis", hysteresis);
}

template <class Visitor>
void visit_fields(Visitor& visit, recipe& x) {
  auto& [model,
         own,
         seed,
         optimizer,
         rate,
         rate_of,
         rate_changes,
         batch,
         precision,
         scaling,
         skippable,
         per_token]
      = x;
  visit("model", model);
  visit("own", own);
  visit("seed", seed);
  visit("optimizer", optimizer);
  visit("rate", rate);
  visit("rate_of", rate_of);
  visit("rate_changes", rate_changes);
  visit("batch", batch);
  visit("precision", precision);
  visit("scaling", scaling);
  visit("skippable_in_a_row", skippable);
  visit("per_token_loss", per_token);
}

template <class Visitor>
void visit_fields(Visitor& visit, data_blend& x) {
  auto& [prefixes, weights] = x;
  visit("prefixes", prefixes);
  visit("weights", weights);
}

template <class Visitor>
void visit_fields(Visitor& visit, fim_settings& x) {
  auto& [enabled,
         rate,
         spm_rate,
         split_sample,
         fragment_rate,
         no_prefix,
         prefix_token,
         middle_token,
         suffix_token,
         pad_token,
         eod_token]
      = x;
  visit("enabled", enabled);
  visit("rate", rate);
  visit("spm_rate", spm_rate);
  visit("split_sample", split_sample);
  visit("fragment_rate", fragment_rate);
  visit("no_prefix", no_prefix);
  visit("prefix_token", prefix_token);
  visit("middle_token", middle_token);
  visit("suffix_token", suffix_token);
  visit("pad_token", pad_token);
  visit("eod_token", eod_token);
}

template <class Visitor>
void visit_fields(Visitor& visit, data_settings& x) {
  auto& [path,
         train_path,
         valid_path,
         test_path,
         mock,
         split,
         cache,
         object_cache,
         objects,
         eod_mask_loss,
         reset_position_ids,
         reset_attention_mask,
         sft,
         fim,
         order,
         end_of_document]
      = x;
  visit("path", path);
  visit("train_path", train_path);
  visit("valid_path", valid_path);
  visit("test_path", test_path);
  visit("mock", mock);
  visit("split", split);
  visit("cache", cache);
  visit("object_cache", object_cache);
  (void)objects;  // stays with its process
  visit("eod_mask_loss", eod_mask_loss);
  visit("reset_position_ids", reset_position_ids);
  visit("reset_attention_mask", reset_attention_mask);
  visit("sft", sft);
  visit("fim", fim);
  visit("order", order);
  visit("end_of_document", end_of_document);
}

template <class Visitor>
void visit_fields(Visitor& visit, action_costs& x) {
  auto& [forward, input_gradients, weight_gradients, recompute, overlapped] = x;
  visit("forward", forward);
  visit("input_gradients", input_gradients);
  visit("weight_gradients", weight_gradients);
  visit("recompute", recompute);
  visit("overlapped", overlapped);
}

template <class Visitor>
void visit_fields(Visitor& visit, schedule_settings& x) {
  auto& [source, text, chunks_per_rank, group, memory_limit, credits, costs, transfer, own] = x;
  visit("source", source);
  visit("text", text);
  visit("chunks_per_rank", chunks_per_rank);
  visit("group", group);
  visit("memory_limit", memory_limit);
  visit("credits", credits);
  visit("costs", costs);
  visit("transfer", transfer);
  visit("own", own);
}

template <class Visitor>
void visit_fields(Visitor& visit, chunk_range& x) {
  auto& [first, end] = x;
  visit("first", first);
  visit("end", end);
}

template <class Visitor>
void visit_fields(Visitor& visit, layout_settings& x) {
  auto& [world,
         tensor,
         pipeline,
         order,
         sequence_parallel,
         replicas_per_worker,
         processes,
         schedule,
         chunks]
      = x;
  visit("world", world);
  visit("tensor", tensor);
  visit("pipeline", pipeline);
  visit("order", order);
  visit("sequence_parallel", sequence_parallel);
  visit("replicas_per_worker", replicas_per_worker);
  visit("processes", processes);
  visit("schedule", schedule);
  visit("chunks", chunks);
}

template <class Visitor>
void visit_fields(Visitor& visit, reduction_settings& x) {
  auto& [distributed_optimizer, bucket_size, overlap_gradients, overlap_parameters, grain] = x;
  visit("distributed_optimizer", distributed_optimizer);
  visit("bucket_size", bucket_size);
  visit("overlap_gradients", overlap_gradients);
  visit("overlap_parameters", overlap_parameters);
  visit("grain", grain);
}

template <class Visitor>
void visit_fields(Visitor& visit, recompute_settings& x) {
  auto& [granularity, method, layers, core_attention, feed_forward] = x;
  visit("granularity", granularity);
  visit("method", method);
  visit("layers", layers);
  visit("core_attention", core_attention);
  visit("feed_forward", feed_forward);
}

template <class Visitor>
void visit_fields(Visitor& visit, checkpoint_settings& x) {
  auto& [save,
         load,
         save_interval,
         load_hub,
         keep_last,
         keep_every,
         local_interval,
         local_folder,
         finetune,
         no_load_optim,
         override_scheduler,
         use_checkpoint_scheduler,
         last_pause,
         strict_identity,
         exit_on_missing]
      = x;
  visit("save", save);
  visit("load", load);
  visit("save_interval", save_interval);
  visit("load_hub", load_hub);
  visit("keep_last", keep_last);
  visit("keep_every", keep_every);
  visit("local_interval", local_interval);
  visit("local_folder", local_folder);
  visit("finetune", finetune);
  visit("no_load_optim", no_load_optim);
  visit("override_scheduler", override_scheduler);
  visit("use_checkpoint_scheduler", use_checkpoint_scheduler);
  visit("last_pause", last_pause);
  visit("strict_identity", strict_identity);
  visit("exit_on_missing", exit_on_missing);
}

template <class Visitor>
void visit_fields(Visitor& visit, watch_settings& x) {
  auto& [log_interval,
         log_file,
         csv_file,
         board_dir,
         board_interval,
         trace_file,
         profile_file,
         schedule_record,
         eval_interval,
         eval_batches,
         log_throughput,
         matrix_rate,
         log_params_norm,
         log_zero_gradients,
         progress,
         log_format,
         log_level,
         quiet,
         straggler_ratio,
         hub,
         hub_certificate]
      = x;
  visit("log_interval", log_interval);
  visit("log_file", log_file);
  visit("csv_file", csv_file);
  visit("board_dir", board_dir);
  visit("board_interval", board_interval);
  visit("trace_file", trace_file);
  visit("profile_file", profile_file);
  visit("schedule_record", schedule_record);
  visit("eval_interval", eval_interval);
  visit("eval_batches", eval_batches);
  visit("log_throughput", log_throughput);
  visit("matrix_rate", matrix_rate);
  visit("log_params_norm", log_params_norm);
  visit("log_zero_gradients", log_zero_gradients);
  visit("progress", progress);
  visit("log_format", log_format);
  visit("log_level", log_level);
  visit("quiet", quiet);
  visit("straggler_ratio", straggler_ratio);
  visit("hub", hub);
  visit("hub_certificate", hub_certificate);
}

template <class Visitor>
void visit_fields(Visitor& visit, recovery_settings& x) {
  auto& [on, max_restarts, window, suspicion, verify_fraction] = x;
  visit("on", on);
  visit("max_restarts", max_restarts);
  visit("window", window);
  visit("suspicion", suspicion);
  visit("verify_fraction", verify_fraction);
}

template <class Visitor>
void visit_fields(Visitor& visit, fault_settings& x) {
  auto& [seed, lane_delay_us, message_delay_us, fault, death] = x;
  visit("seed", seed);
  visit("lane_delay_us", lane_delay_us);
  visit("message_delay_us", message_delay_us);
  visit("fault", fault);
  visit("death", death);
}

template <class Visitor>
void visit_fields(Visitor& visit, device_settings& x) {
  auto& [numbers, tf32, nondeterministic, measure_products, product_choices, exchange] = x;
  visit("numbers", numbers);
  visit("tf32", tf32);
  visit("nondeterministic", nondeterministic);
  visit("measure_products", measure_products);
  visit("product_choices", product_choices);
  visit("exchange", exchange);
}

template <class Visitor>
void visit_fields(Visitor& visit, training_job& x) {
  auto& [training,
         data,
         layout,
         reduction,
         recompute,
         checkpoints,
         watch,
         recovery,
         faults,
         train_iterations,
         exit_interval,
         exit_minutes,
         skip_train,
         threads_per_worker,
         backend,
         devices,
         transport,
         check_messages,
         tokenizer_description]
      = x;
  visit("training", training);
  visit("data", data);
  visit("layout", layout);
  visit("reduction", reduction);
  visit("recompute", recompute);
  visit("checkpoints", checkpoints);
  visit("watch", watch);
  visit("recovery", recovery);
  visit("faults", faults);
  visit("train_iterations", train_iterations);
  visit("exit_interval", exit_interval);
  visit("exit_minutes", exit_minutes);
  visit("skip_train", skip_train);
  visit("threads_per_worker", threads_per_worker);
  visit("backend", backend);
  visit("devices", devices);
  visit("transport", transport);
  visit("check_messages", check_messages);
  visit("tokenizer_description", tokenizer_description);
}

}  // namespace troupe::runtime
