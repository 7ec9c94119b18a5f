// Which optimizer, and its numbers; which rule each parameter is updated by, and what state the
// rule keeps. Everything that asks for the state (memory, digests, checkpoints) follows from here.

#pragma once

#include "runtime/optim/schedules.hpp"
#include "runtime/parameters/spec.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::runtime {

/// As Megatron-LM names them. adam: AdamW, Loshchilov, Hutter: "Decoupled Weight Decay
/// Regularization", 2019. sgd: with momentum, its weight decay is in the gradient. lion: Chen et
/// al., 2023. muon: Jordan et al.: "Muon", 2024, for matrices but those of the words; by
/// `muon_settings::others` the rest.
enum class optimizer_kind : std::uint8_t { adam, sgd, lion, muon };

/// The factor of an orthogonalized update of (R, C): max(R, C)^0.5, (R / C)^0.5 or
/// max(1, R / C)^0.5.
enum class muon_scale : std::uint8_t { spectral, unit_rms_norm, shape_scaling };

/// The numbers of the Newton-Schulz steps.
enum class muon_coefficients : std::uint8_t { simple, quintic, polar_express };

/// What is orthogonalized of a matrix that is sharded over tensor ranks. blockwise: each shard by
/// itself, which is another function. duplicated: all of it, by every rank. distributed: all of it,
/// of whose Gram matrix each rank computes its part.
enum class muon_tensor_mode : std::uint8_t { blockwise, duplicated, distributed };

std::string_view to_string(optimizer_kind x);
std::string_view to_string(muon_scale x);
std::string_view to_string(muon_coefficients x);
std::string_view to_string(muon_tensor_mode x);
std::optional<optimizer_kind> optimizer_kind_from(std::string_view name);
std::optional<muon_scale> muon_scale_from(std::string_view name);
std::optional<muon_coefficients> muon_coefficients_from(std::string_view name);
std::optional<muon_tensor_mode> muon_tensor_mode_from(std::string_view name);

/// Megatron-LM's defaults.
struct muon_settings {
  double momentum = 0.95;
  bool nesterov = false;
  bool split_qkv = true;  ///< queries, keys and values are orthogonalized apart
  muon_scale scale = muon_scale::spectral;
  double extra_scale = 1;
  muon_coefficients coefficients = muon_coefficients::quintic;
  int steps = 5;
  muon_tensor_mode tensor_mode = muon_tensor_mode::blockwise;
  optimizer_kind others = optimizer_kind::adam;  ///< or lion

  friend bool operator==(const muon_settings&, const muon_settings&) = default;
};

struct optimizer_settings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< of adam
  double weight_decay = 0.01;
  double clip = 1.0;  ///< largest norm of all gradients; 0: no clipping

  /// The update after which moments were zero: 0, or where `checkpoints.no_load_optim` went on. The
  /// bias of moments is corrected by the updates since then.
  std::uint64_t moments_from = 0;

  // Weight decay that grows from the start to `weight_decay`.
  increase_style weight_decay_style = increase_style::constant;
  double start_weight_decay = 0;
  std::int64_t weight_decay_samples = 0;  ///< all of the run

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
};

/// By which rule a parameter is updated. Of muon: matrices but the word embedding and the output
/// layer, as in Megatron-LM; so a learned table of positions is one, too.
optimizer_kind rule_of(const optimizer_settings& settings, const parameter_spec& parameter);

/// The arrays that a rule keeps for a parameter, each as large as it, by the names that they have
/// in checkpoints: "exp_avg", "exp_avg_sq".
std::span<const std::string_view> state_names(optimizer_kind rule);

/// "muon, others by adam": what two runs must have alike to go on with each other's state.
std::string state_kind(const optimizer_settings& settings);

}  // namespace troupe::runtime
