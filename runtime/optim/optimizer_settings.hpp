// Optimizer settings, the update rule of each parameter, and the state that the rule keeps. Memory
// estimates, digests and checkpoints derive the state from here.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/optim/schedules.hpp"
#include "runtime/parameters/spec.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::runtime {

/// Optimizers, named as in Megatron-LM:
/// - adam: AdamW, Loshchilov, Hutter: "Decoupled Weight Decay Regularization", 2019.
/// - sgd: with momentum; its weight decay is part of the gradient.
/// - lion: Chen et al., 2023.
/// - muon: Jordan et al.: "Muon", 2024, for matrices except embedding and output layer.
/// `muon_settings::others` updates the rest.
enum class optimizer_kind : std::uint8_t { adam, sgd, lion, muon };

/// Factor of an orthogonalized update (R, C): max(R, C)^0.5, (R / C)^0.5 or max(1, R / C)^0.5.
enum class muon_scale : std::uint8_t { spectral, unit_rms_norm, shape_scaling };

/// Coefficients of the Newton-Schulz steps.
enum class muon_coefficients : std::uint8_t { simple, quintic, polar_express };

/// Orthogonalization of a matrix that is sharded over tensor ranks:
/// - blockwise: each shard by itself, which gives another result;
/// - duplicated: the whole matrix on every rank;
/// - distributed: the whole matrix; each rank computes a part of its Gram matrix.
enum class muon_tensor_mode : std::uint8_t { blockwise, duplicated, distributed };

std::string_view to_string(optimizer_kind x);
std::string_view to_string(muon_scale x);
std::string_view to_string(muon_coefficients x);
std::string_view to_string(muon_tensor_mode x);
std::optional<optimizer_kind> optimizer_kind_from(std::string_view name);

/// Settings of Muon with Megatron-LM's defaults.
struct muon_settings {
  double momentum = 0.95;
  bool nesterov = false;
  bool split_qkv = true;  ///< orthogonalize queries, keys and values separately
  muon_scale scale = muon_scale::spectral;
  double extra_scale = 1;
  muon_coefficients coefficients = muon_coefficients::quintic;
  int steps = 5;
  muon_tensor_mode tensor_mode = muon_tensor_mode::blockwise;
  optimizer_kind others = optimizer_kind::adam;  ///< or lion

  friend bool operator==(const muon_settings&, const muon_settings&) = default;

  static constexpr auto fields() {
    using x = muon_settings;
    return std::tuple(
        row("momentum", &x::momentum)
            .decides()
            .flag({.name = "--muon-momentum",
                   .help = "Momentum of Muon. All flags --muon-* need --optimizer muon.",
                   .range = real_range{0, 1}}),
        row("nesterov", &x::nesterov)
            .decides()
            .flag({.name = "--muon-nesterov", .help = "Nesterov momentum."}),
        row("split_qkv", &x::split_qkv)
            .decides()
            .flag(
                {.name = "--muon-no-split-qkv",
                 .help = "Orthogonalizes queries, keys and values as one matrix instead of three.",
                 .value = "false"}),
        row("scale", &x::scale)
            .decides()
            .flag({.name = "--muon-scale-mode",
                   .type = "MODE",
                   .help = "Scale factor of an update with R rows and C columns. spectral: max(R, "
                           "C)^0.5. unit_rms_norm: (R/C)^0.5. shape_scaling: max(1, R/C)^0.5."})
            .one_of(muon_scale::spectral, muon_scale::unit_rms_norm, muon_scale::shape_scaling),
        row("extra_scale", &x::extra_scale)
            .decides()
            .flag({.name = "--muon-extra-scale-factor",
                   .help = "Additional scale factor of updates.",
                   .range = real_range{0}}),
        row("coefficients", &x::coefficients)
            .decides()
            .flag({.name = "--muon-coefficient-type",
                   .type = "NAME",
                   .help = "Coefficients of the Newton-Schulz steps.",
                   .megatron = "simple, quintic and polar_express"})
            .one_of(muon_coefficients::simple,
                    muon_coefficients::quintic,
                    muon_coefficients::polar_express),
        row("steps", &x::steps)
            .decides()
            .flag({.name = "--muon-num-ns-steps",
                   .unit = "steps",
                   .help = "Newton-Schulz steps per update.",
                   .megatron = "in fp32, as with --muon-fp32-matmul-prec highest",
                   .range = whole_range{1, 99}}),
        row("tensor_mode", &x::tensor_mode)
            .decides()
            .flag({.name = "--muon-tp-mode",
                   .type = "MODE",
                   .help
                   = "How a matrix that is sharded over tensor ranks is orthogonalized. blockwise: "
                     "each shard separately, which gives another result. duplicated: the whole "
                     "matrix on every rank. distributed: the whole matrix, in parts."})
            .one_of(muon_tensor_mode::blockwise,
                    muon_tensor_mode::duplicated,
                    muon_tensor_mode::distributed),
        row("others", &x::others)
            .decides()
            .flag({.name = "--muon-scalar-optimizer",
                   .type = "NAME",
                   .help = "Optimizer of word embedding, output layer, norms and biases."})
            .one_of(optimizer_kind::adam, optimizer_kind::lion));
  }
};

struct optimizer_settings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< for adam
  double weight_decay = 0.01;
  double clip = 1.0;  ///< maximum global gradient norm; 0: no clipping

  /// The update at which the moments were zero: 0, or where `checkpoints.no_load_optim` resumed.
  /// Bias correction counts updates from here.
  std::uint64_t moments_from = 0;

  // Growth of the weight decay from the start to `weight_decay`.
  increase_style weight_decay_style = increase_style::constant;
  double start_weight_decay = 0;
  std::int64_t weight_decay_samples = 0;  ///< samples of the whole run

  optimizer_kind kind = optimizer_kind::adam;
  double sgd_momentum = 0.9;
  double lion_beta1 = 0.95, lion_beta2 = 0.98;
  muon_settings muon = {};

  weight_decay_schedule decay() const {
    return {weight_decay_style == increase_style::constant ? weight_decay : start_weight_decay,
            weight_decay,
            weight_decay_style,
            weight_decay_samples};
  }
  friend bool operator==(const optimizer_settings&, const optimizer_settings&) = default;

  bool uses(optimizer_kind rule) const {
    return kind == rule || (kind == optimizer_kind::muon && muon.others == rule);
  }

  /// The identity has only the settings that the rules read. adam has no "kind": it is older than
  /// the others.
  static constexpr auto fields() {
    using x = optimizer_settings;
    constexpr auto adam = [](const x& s) { return s.uses(optimizer_kind::adam); };
    constexpr auto lion = [](const x& s) { return s.uses(optimizer_kind::lion); };
    constexpr auto grows
        = [](const x& s) { return s.weight_decay_style != increase_style::constant; };
    return std::tuple(
        row("kind", &x::kind)
            .flag({.name = "--optimizer",
                   .type = "NAME",
                   .help = "Optimizer. adam: AdamW, with decoupled weight decay. sgd: with "
                           "momentum. lion. muon: orthogonalized updates of matrices; "
                           "--muon-scalar-optimizer updates the rest.",
                   .megatron = "adam, sgd, lion and muon; dist_muon is muon with "
                               "--use-distributed-optimizer; adaptive_muon and soap are refused"})
            .one_of(optimizer_kind::adam,
                    optimizer_kind::sgd,
                    optimizer_kind::lion,
                    optimizer_kind::muon)
            .decides([](const x& s) { return s.kind != optimizer_kind::adam; }),
        row("beta1", &x::beta1)
            .decides(adam)
            .flag({.name = "--adam-beta1",
                   .help = "Decay rate of the first moment.",
                   .range = real_range{.least = 0, .most = 1, .below = true}}),
        row("beta2", &x::beta2)
            .decides(adam)
            .flag({.name = "--adam-beta2",
                   .help = "Decay rate of the second moment.",
                   .range = real_range{.least = 0, .most = 1, .below = true}}),
        row("epsilon", &x::epsilon)
            .decides(adam)
            .flag({.name = "--adam-eps",
                   .help = "Added to the denominator of the update.",
                   .range = real_range{.least = 0, .above = true}}),
        row("sgd_momentum", &x::sgd_momentum)
            .flag({.name = "--sgd-momentum",
                   .help = "With --optimizer sgd: momentum.",
                   .range = real_range{0, 1}})
            .decides([](const x& s) { return s.kind == optimizer_kind::sgd; }),
        row("lion_beta1", &x::lion_beta1)
            .decides(lion)
            .flag({.name = "--lion-beta1",
                   .help = "With --optimizer lion: weight of the moment in the update.",
                   .range = real_range{0, 1}}),
        row("lion_beta2", &x::lion_beta2)
            .decides(lion)
            .flag({.name = "--lion-beta2",
                   .help = "With --optimizer lion: decay rate of the moment.",
                   .range = real_range{0, 1}}),
        row("muon", &x::muon).decides([](const x& s) { return s.kind == optimizer_kind::muon; }),
        row("weight_decay", &x::weight_decay)
            .decides()
            .flag({.name = "--weight-decay",
                   .help = "Weight decay of all parameters except biases and norms.",
                   .range = real_range{0},
                   .resume = at_resume::scheduler}),
        row("weight_decay_style", &x::weight_decay_style)
            .decides(grows)
            .flag({.name = "--weight-decay-incr-style",
                   .type = "STYLE",
                   .help = "Growth of weight decay over the whole run, from --start-weight-decay "
                           "to --end-weight-decay.",
                   .resume = at_resume::scheduler})
            .one_of(increase_style::constant, increase_style::linear, increase_style::cosine),
        row("start_weight_decay", &x::start_weight_decay).decides(grows),
        row("weight_decay_samples", &x::weight_decay_samples).decides(grows),
        row("clip", &x::clip)
            .decides()
            .flag({.name = "--clip-grad",
                   .help = "Clips gradients to this global norm; 0: off.",
                   .range = real_range{0}}),
        row("moments_from", &x::moments_from).decides([](const x& s) {
          return s.moments_from > 0;
        }));
  }
};

/// Returns the update rule of a parameter. With muon, all matrices except word embedding and output
/// layer use Muon, as in Megatron-LM. This includes a learned position embedding and the matrices
/// of a stack.
optimizer_kind rule_of(const optimizer_settings& settings, const parameter_spec& parameter);

/// Returns the names in checkpoints of a rule's state arrays: "exp_avg", "exp_avg_sq". Each has the
/// size of the parameter.
std::span<const std::string_view> state_names(optimizer_kind rule);

/// Returns the kind of state, such as "muon, others by adam". Runs can resume from each other's
/// state only if it is equal.
std::string state_kind(const optimizer_settings& settings);

}  // namespace troupe::runtime
