// The router of a mixture of experts: its options, its parameters, and what a pass does with them.
//
//   weight        (E, C)   f32 in every store
//   expert_bias   (E)      f32, a statistic: see parameter_spec::counted

#pragma once

#include "runtime/autograd/dispatch.hpp"
#include "runtime/autograd/router.hpp"
#include "runtime/model/layers/module_spec.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// The rows whose choices a loss of the balance of experts counts.
enum class balanced_rows : std::uint8_t {
  microbatch,  ///< "load_balancing_loss"
  sequence,    ///< "seq_load_balancing_loss": the mean over the sequences of a micro-batch
  step,        ///< "global_load_balancing_loss": of all replicas in the step so far (step_counts)
};

/// A router has each at most once.
struct weighted_balance {
  balanced_rows over = balanced_rows::microbatch;
  double weight = 0;
};

/// Changes the choice that the scores alone make.
enum class balance_choice : std::uint8_t {
  none,
  bias,      ///< a bias of each expert, changed once a step by the counts of all rows
  quantile,  ///< a bias of each expert, the mean of the quantiles of micro-batches
  sinkhorn,  ///< rows and experts are balanced by Sinkhorn's iterations, in training only
  forced,    ///< rows choose experts in turn, for benchmarks
};

struct router_spec {
  std::int64_t experts = 0;  ///< E
  std::int64_t chosen = 0;   ///< k
  kernels::route_score score = kernels::route_score::softmax_of_chosen;
  // See kernels::route_rules.
  std::int64_t groups = 1, group_topk = 1, group_best = 1;
  double scale = 1;
  balance_choice choice = balance_choice::none;
  double bias_rate = 1e-3;  ///< bias: step of the bias; quantile: 1 - decay of the mean
  double jitter = 0;        ///< rows times uniform(1 - jitter, 1 + jitter), in training only
  std::vector<weighted_balance> losses = {};
  double z_weight = 0;  ///< of "z_loss"; 0: none
  /// A rank sends an expert at most ceil(R k / E * capacity) of its R rows. 0: no limit. Generation
  /// and scoring have no limit (pass_settings::limits_experts).
  double capacity = 0;
  bool pads = false;  ///< adds rows of zeros up to the capacity
  drop_policy drops = drop_policy::probability;
  bool reads_tokens = false;  ///< on each pipeline rank, for choices that are found by text
};

/// The losses of a model with this number of such routers: see traits_of(experts_spec).
std::vector<loss_spec> losses_of(const router_spec& x, std::int64_t layers);

/// A router with registered parameters.
struct router_layer {
  router_spec spec;
  std::string name;  ///< of its noise and its recorded choices
  int weight = no_parameter, bias = no_parameter;

  struct result {
    variable weights;      ///< (.., k) f32
    expert_choice choice;  ///< without the rows beyond the capacity
  };
  /// x is replicated; with several tensor ranks sequence_sharded. Waits for the choice on the host.
  /// Writes the losses, the rows of experts and the choice for a record. In training it counts the
  /// statistics. A replayed choice stands in for any other one.
  result operator()(tape& tape, pass& p, const variable& x) const;
};

/// For rows of C channels.
router_layer add_router(module_builder to,
                        const router_spec& x,
                        std::int64_t channels,
                        double init_std);

}  // namespace troupe::runtime
