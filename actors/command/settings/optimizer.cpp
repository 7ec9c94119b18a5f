#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

namespace {

void declare_muon(command_line& line, training_flags& to) {
  using runtime::muon_coefficients;
  using runtime::muon_scale;
  using runtime::muon_tensor_mode;
  using runtime::optimizer_kind;
  auto& m = to.job.training.optimizer.muon;
  line.value({.name = "--muon-momentum",
              .field = "optimizer.muon.momentum",
              .type = "X",
              .help = "Momentum of Muon. All flags --muon-* need --optimizer muon.",
              .megatron = "",
              .resume = at_resume::told},
             real(m.momentum, 0, 1));
  line.toggle({.name = "--muon-nesterov",
               .field = "optimizer.muon.nesterov",
               .help = "Nesterov momentum.",
               .megatron = "",
               .resume = at_resume::told},
              [&m] { m.nesterov = true; });
  line.toggle({.name = "--muon-no-split-qkv",
               .field = "optimizer.muon.split_qkv=false",
               .help = "Orthogonalizes queries, keys and values as one matrix instead of three.",
               .megatron = "",
               .resume = at_resume::told},
              [&m] { m.split_qkv = false; });
  line.value({.name = "--muon-scale-mode",
              .field = "optimizer.muon.scale",
              .type = "MODE",
              .help = "Scale factor of an update with R rows and C columns. spectral: max(R, "
                      "C)^0.5. unit_rms_norm: (R/C)^0.5. shape_scaling: max(1, R/C)^0.5.",
              .megatron = "",
              .resume = at_resume::told},
             one_of(m.scale,
                    {muon_scale::spectral, muon_scale::unit_rms_norm, muon_scale::shape_scaling}));
  line.value({.name = "--muon-extra-scale-factor",
              .field = "optimizer.muon.extra_scale",
              .type = "X",
              .help = "Additional scale factor of updates.",
              .megatron = "",
              .resume = at_resume::told},
             real(m.extra_scale, 0));
  line.value({.name = "--muon-coefficient-type",
              .field = "optimizer.muon.coefficients",
              .type = "NAME",
              .help = "Coefficients of the Newton-Schulz steps.",
              .megatron = "simple, quintic and polar_express",
              .resume = at_resume::told},
             one_of(m.coefficients,
                    {muon_coefficients::simple,
                     muon_coefficients::quintic,
                     muon_coefficients::polar_express}));
  line.value({.name = "--muon-num-ns-steps",
              .field = "optimizer.muon.steps",
              .type = "N",
              .unit = "steps",
              .help = "Newton-Schulz steps per update.",
              .megatron = "in fp32, as with --muon-fp32-matmul-prec highest",
              .resume = at_resume::told},
             whole(m.steps, 1, 99));
  line.value({.name = "--muon-tp-mode",
              .field = "optimizer.muon.tensor_mode",
              .type = "MODE",
              .help = "How a matrix that is sharded over tensor ranks is orthogonalized. "
                      "blockwise: each shard separately, which gives another result. duplicated: "
                      "the whole matrix on every rank. distributed: the whole matrix, in parts.",
              .megatron = "",
              .resume = at_resume::told},
             one_of(m.tensor_mode,
                    {muon_tensor_mode::blockwise,
                     muon_tensor_mode::duplicated,
                     muon_tensor_mode::distributed}));
  line.value({.name = "--muon-scalar-optimizer",
              .field = "optimizer.muon.others",
              .type = "NAME",
              .help = "Optimizer of word embedding, output layer, norms and biases.",
              .megatron = "",
              .resume = at_resume::told},
             one_of(m.others, {optimizer_kind::adam, optimizer_kind::lion}));
}

}  // namespace

void declare_optimizer(command_line& line, training_flags& to) {
  using runtime::increase_style;
  using enum runtime::optimizer_kind;
  auto& a = to.job.training.optimizer;
  line.group("Optimizer");
  line.value(
      {.name = "--optimizer",
       .field = "optimizer.kind",
       .type = "NAME",
       .help
       = "Optimizer. adam: AdamW, with decoupled weight decay. sgd: with momentum. lion. muon: "
         "orthogonalized updates of matrices; --muon-scalar-optimizer updates the rest.",
       .megatron = "adam, sgd, lion and muon; dist_muon is muon with "
                   "--use-distributed-optimizer; adaptive_muon and soap are refused",
       .resume = at_resume::told},
      one_of(a.kind,
             {adam, sgd, lion, muon},
             {{"dist_muon",
               "--use-distributed-optimizer decides how the state is sharded; use it with "
               "--optimizer muon"},
              {"adaptive_muon",
               "second moments of orthogonalized updates are not implemented; use "
               "--optimizer muon"},
              {"soap",
               "eigenvectors of the gradients' covariances are not implemented; use "
               "--optimizer muon or adam"}}));
  line.value({.name = "--adam-beta1",
              .field = "optimizer.beta1",
              .type = "X",
              .help = "Decay rate of the first moment.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.beta1, real_range{.least = 0, .most = 1, .below = true}));
  line.value({.name = "--adam-beta2",
              .field = "optimizer.beta2",
              .type = "X",
              .help = "Decay rate of the second moment.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.beta2, real_range{.least = 0, .most = 1, .below = true}));
  line.value({.name = "--adam-eps",
              .field = "optimizer.epsilon",
              .type = "X",
              .help = "Added to the denominator of the update.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.epsilon, real_range{.least = 0, .above = true}));
  line.value({.name = "--sgd-momentum",
              .field = "optimizer.sgd_momentum",
              .type = "X",
              .help = "With --optimizer sgd: momentum.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.sgd_momentum, 0, 1));
  line.value({.name = "--lion-beta1",
              .field = "optimizer.lion_beta1",
              .type = "X",
              .help = "With --optimizer lion: weight of the moment in the update.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.lion_beta1, 0, 1));
  line.value({.name = "--lion-beta2",
              .field = "optimizer.lion_beta2",
              .type = "X",
              .help = "With --optimizer lion: decay rate of the moment.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.lion_beta2, 0, 1));
  declare_muon(line, to);
  line.value({.name = "--weight-decay",
              .field = "optimizer.weight_decay",
              .type = "X",
              .help = "Weight decay of all parameters except biases and norms.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(a.weight_decay, 0));
  line.value({.name = "--weight-decay-incr-style",
              .field = "optimizer.weight_decay_style",
              .type = "STYLE",
              .help = "Growth of weight decay over the whole run, from --start-weight-decay to "
                      "--end-weight-decay.",
              .megatron = "",
              .resume = at_resume::scheduler},
             one_of(a.weight_decay_style,
                    {increase_style::constant, increase_style::linear, increase_style::cosine}));
  line.value({.name = "--start-weight-decay",
              .field = "optimizer.start_weight_decay",
              .type = "X",
              .default_value = "--weight-decay",
              .help = "With --weight-decay-incr-style linear or cosine: initial weight decay.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(to.start_weight_decay, 0));
  line.value({.name = "--end-weight-decay",
              .field = "optimizer.end_weight_decay",
              .type = "X",
              .default_value = "--weight-decay",
              .help = "With --weight-decay-incr-style linear or cosine: final weight decay.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(to.end_weight_decay, 0));
  line.value({.name = "--clip-grad",
              .field = "optimizer.clip",
              .type = "X",
              .help = "Clips gradients to this global norm; 0: off.",
              .megatron = "",
              .resume = at_resume::told},
             real(a.clip, 0));
  line.value({.name = "--seed",
              .field = "seed",
              .type = "N",
              .help = "Random seed of initial weights, dropout and the sample order.",
              .megatron = "same sample order as Megatron-LM; other initial weights and dropout",
              .resume = at_resume::told},
             whole(to.job.training.seed, 0, std::int64_t{4294967295}));
}

void declare_scaling(command_line& line, training_flags& to) {
  constexpr double largest = 0x1p100;
  auto& s = to.job.training.scaling;
  line.group("Loss scale: with --fp16, keeps small gradients from underflow");
  line.value({.name = "--loss-scale",
              .field = "scaling.constant",
              .type = "X",
              .default_value = "dynamic, set by the next four flags",
              .help = "Constant scale; --on-nonfinite then handles a step that is not finite.",
              .megatron = "with --fp16; refused without it, because gradients then need no scaling",
              .resume = at_resume::told},
             if_given(real(s.constant, 1, largest)));
  line.value({.name = "--initial-loss-scale",
              .field = "scaling.initial",
              .type = "X",
              .default_value = "4294967296",
              .help = "Initial scale. It falls within a few steps.",
              .megatron = "with --fp16; refused without it, because gradients then need no scaling",
              .resume = at_resume::told},
             if_given(real(s.initial, 1, largest)));
  line.value(
      {.name = "--min-loss-scale",
       .field = "scaling.minimum",
       .type = "X",
       .default_value = "1",
       .help = "Minimum scale; --on-nonfinite handles a step that is not finite at this scale.",
       .megatron = "with --fp16; refused without it, because gradients then need no scaling",
       .resume = at_resume::told},
      if_given(real(s.minimum, 0x1p-100, largest)));
  line.value({.name = "--loss-scale-window",
              .field = "scaling.window",
              .type = "N",
              .unit = "steps",
              .default_value = "1000",
              .help = "Consecutive finite steps before the scale is doubled.",
              .megatron = "with --fp16; refused without it, because gradients then need no scaling",
              .resume = at_resume::told},
             if_given(whole(s.window, 1, largest_count)));
  line.value({.name = "--hysteresis",
              .field = "scaling.hysteresis",
              .type = "N",
              .unit = "steps",
              .default_value = "2",
              .help = "Steps that are not finite before the scale is halved; the count restarts "
                      "when it is doubled.",
              .megatron = "with --fp16; refused without it, because gradients then need no scaling",
              .resume = at_resume::told},
             if_given(whole(s.hysteresis, 1, largest_count)));
}

}  // namespace troupe::command::settings
