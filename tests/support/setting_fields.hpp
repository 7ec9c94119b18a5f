// Every field of a job that is a setting, by name. A field more or less does not compile here: it
// needs a name, and the tests of settings then ask for its flag.

#pragma once

#include "runtime/trainer/job.hpp"

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::tests {

/// The fields of `job`, each as the library's errors name it.
inline std::vector<std::string> setting_fields(const runtime::training_job& job) {
  std::vector<std::string> out;
  const auto names = [&out](const std::string& of,
                            std::initializer_list<const char*> fields,
                            const auto&... bound) {
    if (fields.size() != sizeof...(bound))
      throw std::logic_error("a name for each field of " + of);
    for (const auto* field : fields)
      out.push_back(of + field);
  };
  {
    const auto& [training,
                 data,
                 layout,
                 reduction,
                 recompute,
                 checkpoints,
                 watch,
                 faults,
                 iterations,
                 exit,
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
           "threads_per_worker",
           "backend",
           "transport",
           "check_messages",
           "tokenizer_description"},
          iterations,
          exit,
          threads,
          backend,
          transport,
          checks,
          tokenizer);
  }
  {
    const auto& [model, own, seed, optimizer, rate, rate_of, batch, precision, scaling, skippable]
        = job.training;
    names("",
          {"own", "seed", "rate_of", "precision", "skippable_in_a_row"},
          own,
          seed,
          rate_of,
          precision,
          skippable);
  }
  {
    const auto& [layers,
                 hidden,
                 heads,
                 groups,
                 head_size,
                 ffn,
                 sequence,
                 positions,
                 vocabulary,
                 padded,
                 position,
                 base,
                 percent,
                 interleaved,
                 interpolation,
                 scaling,
                 factor,
                 original,
                 low,
                 high,
                 fast,
                 slow,
                 mscale,
                 mscale_all,
                 rounds,
                 normalization,
                 epsilon,
                 offset,
                 qk_norm,
                 activation,
                 linear_bias,
                 qkv_bias,
                 tied,
                 window,
                 hidden_dropout,
                 attention_dropout,
                 init_std]
        = job.training.model;
    names("model.",
          {"layers",
           "hidden",
           "heads",
           "groups",
           "head_size",
           "ffn",
           "sequence",
           "positions",
           "vocabulary",
           "padded_vocabulary",
           "position",
           "rotary_base",
           "rotary_percent",
           "rotary_interleaved",
           "rotary_interpolation",
           "scaling",
           "scaling_factor",
           "scaling_positions",
           "llama3_low",
           "llama3_high",
           "yarn_fast",
           "yarn_slow",
           "yarn_mscale",
           "yarn_mscale_all",
           "yarn_round",
           "normalization",
           "norm_epsilon",
           "gain_offset",
           "qk_norm",
           "activation",
           "linear_bias",
           "qkv_bias",
           "tied_embeddings",
           "window",
           "hidden_dropout",
           "attention_dropout",
           "init_std"},
          layers,
          hidden,
          heads,
          groups,
          head_size,
          ffn,
          sequence,
          positions,
          vocabulary,
          padded,
          position,
          base,
          percent,
          interleaved,
          interpolation,
          scaling,
          factor,
          original,
          low,
          high,
          fast,
          slow,
          mscale,
          mscale_all,
          rounds,
          normalization,
          epsilon,
          offset,
          qk_norm,
          activation,
          linear_bias,
          qkv_bias,
          tied,
          window,
          hidden_dropout,
          attention_dropout,
          init_std);
  }
  {
    const auto& [beta1, beta2, epsilon, decay, clip, moments] = job.training.optimizer;
    names("optimizer.",
          {"beta1", "beta2", "epsilon", "weight_decay", "clip", "moments_from"},
          beta1,
          beta2,
          epsilon,
          decay,
          clip,
          moments);
  }
  {
    const auto& [maximum, minimum, start, warmup, decay, style] = job.training.rate;
    names("rate.",
          {"maximum", "minimum", "warmup_start", "warmup", "decay", "style"},
          maximum,
          minimum,
          start,
          warmup,
          decay,
          style);
  }
  {
    const auto& [micro, global, replicas, start, increment, samples] = job.training.batch;
    names("batch.",
          {"micro", "global", "data_parallel", "ramp_start", "ramp_increment", "ramp_samples"},
          micro,
          global,
          replicas,
          start,
          increment,
          samples);
  }
  {
    const auto& [constant, initial, minimum, window, hysteresis] = job.training.scaling;
    names("scaling.",
          {"constant", "initial", "minimum", "window", "hysteresis"},
          constant,
          initial,
          minimum,
          window,
          hysteresis);
  }
  {
    const auto& [path, train, valid, test, mock, split, cache, mask, reset, cuts, sampling, end]
        = job.data;
    names("data.",
          {"path",
           "train_path",
           "valid_path",
           "test_path",
           "mock",
           "split",
           "cache",
           "eod_mask_loss",
           "reset_position_ids",
           "reset_attention_mask",
           "order",
           "end_of_document"},
          path,
          train,
          valid,
          test,
          mock,
          split,
          cache,
          mask,
          reset,
          cuts,
          sampling,
          end);
  }
  {
    const auto& [world, tensor, pipeline, order, sequence, replicas, schedule, chunks] = job.layout;
    names("layout.",
          {"world",
           "tensor",
           "pipeline",
           "order",
           "sequence_parallel",
           "replicas_per_worker",
           "chunks"},
          world,
          tensor,
          pipeline,
          order,
          sequence,
          replicas,
          chunks);
    const auto& [source, text, each, group, limit, costs, transfer, own] = schedule;
    names(
        "layout.schedule.",
        {"source", "text", "chunks_per_rank", "group", "memory_limit", "costs", "transfer", "own"},
        source,
        text,
        each,
        group,
        limit,
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
                 finetune,
                 no_optim,
                 overriding,
                 use,
                 pause,
                 strict]
        = job.checkpoints;
    names("checkpoints.",
          {"save",
           "load",
           "save_interval",
           "load_hub",
           "keep_last",
           "finetune",
           "no_load_optim",
           "override_scheduler",
           "use_checkpoint_scheduler",
           "last_pause",
           "strict_identity"},
          save,
          load,
          interval,
          hub,
          keep,
          finetune,
          no_optim,
          overriding,
          use,
          pause,
          strict);
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
                 progress]
        = job.watch;
    names("watch.",
          {"log_interval",
           "log_file",
           "csv_file",
           "board_dir",
           "board_interval",
           "trace_file",
           "profile_file",
           "schedule_record",
           "eval_interval",
           "eval_batches",
           "log_throughput",
           "matrix_rate",
           "log_params_norm",
           "log_zero_gradients",
           "progress"},
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
          progress);
  }
  {
    const auto& [seed, lane, message, fault] = job.faults;
    names("faults.",
          {"seed", "lane_delay_us", "message_delay_us", "fault"},
          seed,
          lane,
          message,
          fault);
  }
  {
    const auto& [numbers, tf32, measure, choices, exchange] = job.devices;
    names("devices.",
          {"numbers", "tf32", "measure_products", "product_choices", "exchange"},
          numbers,
          tf32,
          measure,
          choices,
          exchange);
  }
  return out;
}

}  // namespace troupe::tests
