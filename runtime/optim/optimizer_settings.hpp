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
    return std::tuple(row("momentum", &x::momentum).decides(),
                      row("nesterov", &x::nesterov).decides(),
                      row("split_qkv", &x::split_qkv).decides(),
                      row("scale", &x::scale).decides(),
                      row("extra_scale", &x::extra_scale).decides(),
                      row("coefficients", &x::coefficients).decides(),
                      row("steps", &x::steps).decides(),
                      row("tensor_mode", &x::tensor_mode).decides(),
                      row("others", &x::others).decides());
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
        row("beta1", &x::beta1).decides(adam),
        row("beta2", &x::beta2).decides(adam),
        row("epsilon", &x::epsilon).decides(adam),
        row("weight_decay", &x::weight_decay).decides(),
        row("clip", &x::clip).decides(),
        row("moments_from", &x::moments_from).decides([](const x& s) {
          return s.moments_from > 0;
        }),
        row("weight_decay_style", &x::weight_decay_style).decides(grows),
        row("start_weight_decay", &x::start_weight_decay).decides(grows),
        row("weight_decay_samples", &x::weight_decay_samples).decides(grows),
        row("kind", &x::kind).decides([](const x& s) { return s.kind != optimizer_kind::adam; }),
        row("sgd_momentum", &x::sgd_momentum).decides([](const x& s) {
          return s.kind == optimizer_kind::sgd;
        }),
        row("lion_beta1", &x::lion_beta1).decides(lion),
        row("lion_beta2", &x::lion_beta2).decides(lion),
        row("muon", &x::muon).decides([](const x& s) { return s.kind == optimizer_kind::muon; }));
  }
};

/// Returns the update rule of a parameter. With muon, all matrices except word embedding and output
/// layer use Muon, as in Megatron-LM. This includes a learned position embedding.
optimizer_kind rule_of(const optimizer_settings& settings, const parameter_spec& parameter);

/// Returns the names in checkpoints of a rule's state arrays: "exp_avg", "exp_avg_sq". Each has the
/// size of the parameter.
std::span<const std::string_view> state_names(optimizer_kind rule);

/// Returns the kind of state, such as "muon, others by adam". Runs can resume from each other's
/// state only if it is equal.
std::string state_kind(const optimizer_settings& settings);

}  // namespace troupe::runtime
