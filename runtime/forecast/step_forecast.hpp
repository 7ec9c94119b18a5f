// Forecasts the time of a training step on a cluster.
//
// A step is the pipeline's passes, the sums of gradients over replicas, and the update. The passes
// take the makespan of the plan, simulated with the costs of each chunk (layer_costs.hpp). A sum
// that overlaps is hidden, for a share of its time, by the last backward pass; a gather of
// parameters by the first forward pass. Everything else follows from the layout and the cluster:
// which groups leave a host comes from the rank order.

#pragma once

#include "runtime/forecast/layer_costs.hpp"
#include "runtime/model/recompute.hpp"
#include "runtime/schedule/plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The units of a chunk.
struct chunk_outline {
  int first = 0, end = 0;  ///< layers
  bool embedding = false, head = false;
};

/// Layers as even as possible. If they do not divide, embedding and head count as one layer each.
std::vector<chunk_outline> even_chunks(int layers, int chunks);

/// Inputs of a step's time besides model and cluster.
struct step_outline {
  int world = 1, tensor = 1, context = 1, pipeline = 1, expert = 1, expert_tensor = 1;
  std::string order = "tp-cp-ep-dp-pp";
  std::vector<chunk_outline> chunks = {};  ///< of the model
  std::int64_t micro = 1, global = 1;      ///< samples
  dtype precision = dtype::bf16;
  bool fp8 = false;  ///< products of layers
  double gradient_bytes = 4;
  bool sequence_parallel = false;
  bool distributed_optimizer = false;
  bool overlap_gradients = false, overlap_parameters = false;
  recompute_settings recompute = {};
  /// Properties of other programs: Troupe's attention and loss are fused, its hand-offs overlap,
  /// and its tensor collectives do not.
  bool fused_attention = true, fused_loss = true, overlap_handoffs = true, overlap_tensor = false;
  bool shared_handoffs = false;  ///< tensor ranks send a part each, also without sequence_parallel

  int data() const { return world / (tensor * context * pipeline); }
  int microbatches() const { return int(global / (micro * data())); }
};

/// The spans of all groups of a step.
struct step_spans {
  group_span tensor, context;
  group_span data;  ///< with context ranks, which have the same parameters
  group_span expert, expert_tensor, expert_data;
  bool far_stages = false;  ///< some stage is on another host than the next one
};

/// Throws as make_mesh and fold_experts do. O(world).
step_spans spans_of(const step_outline& step, int devices_per_host);

struct step_forecast {
  double seconds = 0;
  step_parts passes;     ///< of the rank that computes longest, all micro-batches
  double bubble = 0;     ///< until the last rank ends, without `passes`
  double gradients = 0;  ///< sums over replicas and of tied parameters, as far as visible
  double update = 0;     ///< of the optimizer
  double gather = 0;     ///< of parameters, as far as visible
  double host = 0;       ///< work of the host that no device hides
};

/// `plan`: of all micro-batches of a replica. Throws input_error if the cluster has too few
/// devices, or as make_mesh and fold_experts do.
step_forecast forecast_step(const model_outline& model,
                            const step_outline& step,
                            const cluster_outline& on,
                            const plan& plan,
                            const forecast_assumptions& by = {});

/// The same without a plan, for comparisons of many layouts: the bubble is (p - 1) / v passes of
/// the slowest rank, v chunks on each of p ranks, as in 1F1B and interleaved schedules. `spans`:
/// those of the step, if the caller knows them.
step_forecast estimate_step(const model_outline& model,
                            const step_outline& step,
                            const cluster_outline& on,
                            const forecast_assumptions& by = {},
                            const std::optional<step_spans>& spans = {});

}  // namespace troupe::runtime
