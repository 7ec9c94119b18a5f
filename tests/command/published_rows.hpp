// The rows of published tables of speed, and their forecasts
// (tests/golden/forecast/published.json).

#pragma once

#include "actors/command/cluster_file.hpp"
#include "runtime/family/gpt/gpt_config.hpp"
#include "runtime/family/gpt/gpt_estimates.hpp"
#include "runtime/forecast/memory_estimate.hpp"
#include "runtime/schedule/generators.hpp"
#include "tests/support/published_gpts.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

using nlohmann::json;
namespace rt = troupe::runtime;

struct published_row {
  std::string table, name;
  bool fitted = false;      ///< the constants were fitted to it: every second row of its table
  bool calibrates = false;  ///< its device's measured shares were fitted to it
  rt::gpt_config model;
  rt::step_outline step;
  std::optional<std::int64_t> micro;  ///< empty: not published, as are virtual stages
  int virtual_stages = 1;
  rt::cluster_outline cluster;
  double seconds = 0;  ///< of a step
  double bound = 0;    ///< of the forecast's error: the one that was reached
};

inline rt::gpt_config known_model(const std::string& name) {
  if (name == "deepseek-v3")
    return deepseek_v3();
  if (name.starts_with("llama")) {
    auto out = llama3_8b();
    const bool is_70b = name == "llama3-70b";
    if (name == "llama3-8b")
      return out;
    out.layers = is_70b ? 80 : 126;
    out.hidden = is_70b ? 8192 : 16384;
    out.heads = is_70b ? 64 : 128;
    out.ffn = is_70b ? 28672 : 53248;
    return out;
  }
  auto out = qwen3_30b_a3b();  // Qwen3-235B-A22B has the same parts
  out.layers = 94;
  out.hidden = 4096;
  out.heads = 64;
  out.ffn = 12288;
  out.experts.ffn = 1536;
  return out;
}

inline rt::gpt_config model_of(const json& x) {
  rt::gpt_config out;
  if (x.contains("model")) {
    out = known_model(x["model"]);
  } else {
    out = gpt2(x["layers"], x["hidden"], x["heads"]);
    out.padded_vocabulary = x["vocabulary"];
    out.tied_embeddings = !x.value("untied", false);
    out.hidden_dropout = out.attention_dropout = x.value("dropout", 0.0);
  }
  out.sequence = out.positions = x["sequence"];
  return out;
}

inline rt::step_outline step_of(const json& x) {
  rt::step_outline out{.world = x["world"],
                       .tensor = x["tensor"],
                       .context = x.value("context", 1),
                       .pipeline = x["pipeline"],
                       .expert = x.value("expert", 1),
                       .expert_tensor = x["tensor"],
                       .global = x["global"],
                       .fp8 = x.value("fp8", false),
                       .gradient_bytes = x.value("gradient_bytes", 4.0),
                       .sequence_parallel = x.value("sequence_parallel", false),
                       .distributed_optimizer = x.value("distributed_optimizer", false),
                       .overlap_gradients = x.value("overlap_gradients", false),
                       .overlap_parameters = x.value("overlap_parameters", false),
                       .fused_attention = x.value("fused_attention", true),
                       .fused_loss = x.value("fused_loss", true),
                       .overlap_handoffs = x.value("overlap_handoffs", true),
                       .overlap_tensor = x.value("overlap_tensor", false),
                       .shared_handoffs = x.value("shared_handoffs", false)};
  if (x["precision"] == "f16")
    out.precision = rt::dtype::f16;
  if (x.value("recompute", "") == "full")
    out.recompute.granularity = rt::recompute_granularity::full;
  return out;
}

/// Seconds of a step by the published rate. FLOPs are those that each table counts.
inline double published_seconds(const json& x, const std::string& table) {
  const double B = x["global"], T = x["sequence"], world = x["world"];
  if (x.contains("tokens"))
    return B * T / (double(x["tokens"]) * world);
  const double L = x["layers"], C = x["hidden"], V = x["vocabulary"];
  const double flops = table == "SC21"
                           ? 96 * B * T * L * C * C * (1 + T / (6 * C) + V / (16 * L * C))
                           : 12 * B * T * L * C * C * (6 + T / C) + 6 * B * T * C * V;
  return flops / (double(x["tflops"]) * 1e12 * world);
}

inline std::vector<published_row> published_rows(const std::string& root) {
  std::ifstream in(root + "/tests/golden/forecast/published.json");
  const auto all = json::parse(in);
  std::vector<published_row> out;
  for (const auto& table : all["tables"]) {
    int number = 0;
    for (const auto& given : table["rows"]) {
      auto x = table["all"];
      x["cluster"] = table["cluster"];
      x.update(given);
      published_row row{.table = table["name"],
                        .name = x["name"],
                        .fitted = number++ % 2 == 0,
                        .calibrates = x.value("calibrates", false)};
      row.model = model_of(x);
      row.step = step_of(x);
      if (x.contains("micro"))
        row.micro = std::int64_t(x["micro"]);
      row.virtual_stages = x.value("virtual", 1);
      row.cluster = command::read_cluster(root + "/examples/clusters/" + std::string(x["cluster"])
                                          + ".yaml");
      row.seconds = published_seconds(x, row.table);
      row.bound = x.value("bound", 0.0);
      out.push_back(std::move(row));
    }
  }
  return out;
}

/// The row's layout; where the table is silent, the fastest that fits in nine tenths of the memory.
inline rt::step_outline layout_of(const published_row& row,
                                  const rt::forecast_assumptions& by = {}) {
  const auto model = rt::gpt_outline(row.model);
  const int layers = int(row.model.layers);
  auto best = row.step;
  double fastest = 0;
  for (const std::int64_t micro :
       row.micro ? std::vector<std::int64_t>{*row.micro} : std::vector<std::int64_t>{1, 2, 4}) {
    auto step = row.step;
    step.micro = micro;
    for (int v = 1; v <= std::max(1, layers / step.pipeline); ++v) {
      if (row.micro ? v != row.virtual_stages : layers % (v * step.pipeline) != 0)
        continue;
      if (v > 1 && (step.pipeline == 1 || step.microbatches() % step.pipeline != 0))
        continue;
      step.chunks = rt::even_chunks(layers, v * step.pipeline);
      if (!row.micro && rt::estimate_memory(model, step) > 0.9 * row.cluster.device.memory)
        continue;
      const double seconds = rt::estimate_step(model, step, row.cluster, by).seconds;
      if (fastest == 0 || seconds < fastest) {
        fastest = seconds;
        best = step;
      }
    }
  }
  return best;
}

inline rt::step_forecast forecast_of(const published_row& row,
                                     const rt::step_outline& step,
                                     const rt::forecast_assumptions& by = {}) {
  const int v = int(step.chunks.size()) / step.pipeline;
  const auto plan = rt::generate(v > 1 ? "interleaved" : "1f1b",
                                 {.ranks = step.pipeline,
                                  .chunks_per_rank = v > 1 ? v : 0,
                                  .microbatches = step.microbatches()});
  return rt::forecast_step(rt::gpt_outline(row.model), step, row.cluster, plan, by);
}

}  // namespace troupe::tests
