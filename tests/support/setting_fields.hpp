// The names of all settings of a job. Does not compile when a field is added or removed; the tests
// of settings then demand a flag for each name.

#pragma once

#include "runtime/job/job.hpp"
#include "tests/support/training_fields.hpp"

#include <string>
#include <vector>

namespace troupe::tests {

/// The fields of `job`, named as in the library's errors.
inline std::vector<std::string> setting_fields(const runtime::training_job& job) {
  field_names names;
  {
    const auto& [training,
                 data,
                 layout,
                 reduction,
                 recompute,
                 checkpoints,
                 watch,
                 recovery,
                 faults,
                 iterations,
                 exit,
                 minutes,
                 skip,
                 threads,
                 backend,
                 devices,
                 transport,
                 checks,
                 tokenizer]
        = job;
    names("",
          {"train_iterations",
           "exit_interval",
           "exit_minutes",
           "skip_train",
           "threads_per_worker",
           "backend",
           "transport",
           "check_messages",
           "tokenizer_description"},
          iterations,
          exit,
          minutes,
          skip,
          threads,
          backend,
          transport,
          checks,
          tokenizer);
  }
  add_training_fields(names, job.training);
  {
    const auto& [path,
                 train,
                 valid,
                 test,
                 mock,
                 split,
                 cache,
                 object_cache,
                 objects,
                 mask,
                 reset,
                 cuts,
                 sft,
                 fim,
                 sampling,
                 end]
        = job.data;
    names("data.",
          {"path",
           "train_path",
           "valid_path",
           "test_path",
           "mock",
           "split",
           "cache",
           "object_cache",
           "objects",
           "eod_mask_loss",
           "reset_position_ids",
           "reset_attention_mask",
           "sft",
           "order",
           "end_of_document"},
          path,
          train,
          valid,
          test,
          mock,
          split,
          cache,
          object_cache,
          objects,
          mask,
          reset,
          cuts,
          sft,
          sampling,
          end);
    const auto& [enabled,
                 rate,
                 spm,
                 fragments,
                 fragment_rate,
                 whole,
                 prefix,
                 middle,
                 suffix,
                 pad,
                 eod]
        = fim;
    names("data.fim.",
          {"enabled",
           "rate",
           "spm_rate",
           "split_sample",
           "fragment_rate",
           "no_prefix",
           "prefix_token",
           "middle_token",
           "suffix_token",
           "pad_token",
           "eod_token"},
          enabled,
          rate,
          spm,
          fragments,
          fragment_rate,
          whole,
          prefix,
          middle,
          suffix,
          pad,
          eod);
  }
  {
    const auto& [world, tensor, pipeline, order, sequence, replicas, processes, schedule, chunks]
        = job.layout;
    names("layout.",
          {"world",
           "tensor",
           "pipeline",
           "order",
           "sequence_parallel",
           "replicas_per_worker",
           "processes",
           "chunks"},
          world,
          tensor,
          pipeline,
          order,
          sequence,
          replicas,
          processes,
          chunks);
    const auto& [source, text, each, group, limit, credits, costs, transfer, own] = schedule;
    names("layout.schedule.",
          {"source",
           "text",
           "chunks_per_rank",
           "group",
           "memory_limit",
           "credits",
           "costs",
           "transfer",
           "own"},
          source,
          text,
          each,
          group,
          limit,
          credits,
          costs,
          transfer,
          own);
  }
  {
    const auto& [distributed, size, gradients, parameters, grain] = job.reduction;
    names("reduction.",
          {"distributed_optimizer",
           "bucket_size",
           "overlap_gradients",
           "overlap_parameters",
           "grain"},
          distributed,
          size,
          gradients,
          parameters,
          grain);
  }
  {
    const auto& [granularity, method, layers, core, feed_forward] = job.recompute;
    names("recompute.",
          {"granularity", "method", "layers", "core_attention", "feed_forward"},
          granularity,
          method,
          layers,
          core,
          feed_forward);
  }
  {
    const auto& [save,
                 load,
                 interval,
                 hub,
                 keep,
                 every,
                 local_interval,
                 local_folder,
                 finetune,
                 no_optim,
                 overriding,
                 use,
                 pause,
                 strict,
                 missing]
        = job.checkpoints;
    names("checkpoints.",
          {"save",
           "load",
           "save_interval",
           "load_hub",
           "keep_last",
           "keep_every",
           "local_interval",
           "local_folder",
           "finetune",
           "no_load_optim",
           "override_scheduler",
           "use_checkpoint_scheduler",
           "last_pause",
           "strict_identity",
           "exit_on_missing"},
          save,
          load,
          interval,
          hub,
          keep,
          every,
          local_interval,
          local_folder,
          finetune,
          no_optim,
          overriding,
          use,
          pause,
          strict,
          missing);
  }
  {
    const auto& [interval,
                 log,
                 csv,
                 board,
                 board_interval,
                 trace,
                 profile,
                 record,
                 eval,
                 batches,
                 throughput,
                 rate,
                 params,
                 zeros,
                 progress,
                 format,
                 level,
                 quiet,
                 ratio,
                 hub,
                 certificate]
        = job.watch;
    names("watch.",
          {"log_interval",    "log_file",
           "csv_file",        "board_dir",
           "board_interval",  "trace_file",
           "profile_file",    "schedule_record",
           "eval_interval",   "eval_batches",
           "log_throughput",  "matrix_rate",
           "log_params_norm", "log_zero_gradients",
           "progress",        "log_format",
           "log_level",       "quiet",
           "straggler_ratio", "hub",
           "hub_certificate"},
          interval,
          log,
          csv,
          board,
          board_interval,
          trace,
          profile,
          record,
          eval,
          batches,
          throughput,
          rate,
          params,
          zeros,
          progress,
          format,
          level,
          quiet,
          ratio,
          hub,
          certificate);
  }
  {
    const auto& [on, restarts, window, suspicion, verify] = job.recovery;
    names("recovery.",
          {"on", "max_restarts", "window", "suspicion", "verify_fraction"},
          on,
          restarts,
          window,
          suspicion,
          verify);
  }
  {
    const auto& [seed, lane, message, fault, death] = job.faults;
    names("faults.",
          {"seed", "lane_delay_us", "message_delay_us", "fault", "death"},
          seed,
          lane,
          message,
          fault,
          death);
  }
  {
    const auto& [numbers, tf32, nondeterministic, measure, choices, exchange] = job.devices;
    names(
        "devices.",
        {"numbers", "tf32", "nondeterministic", "measure_products", "product_choices", "exchange"},
        numbers,
        tf32,
        nondeterministic,
        measure,
        choices,
        exchange);
  }
  return names.all();
}

}  // namespace troupe::tests
