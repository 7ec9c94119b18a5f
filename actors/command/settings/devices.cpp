#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_device(command_line& line, training_flags& to) {
  using enum runtime::collectives;
  auto& d = to.job.devices;
  line.group("Device");
  line.value({.name = "--backend",
              .field = "backend",
              .type = "NAME",
              .help = "Backend that computes. auto: cuda if a device can be used, else cpu. cuda; "
                      "cpu. reference: slow plain loops with sums in double precision; tests "
                      "compare the others with it.",
              .resume = at_resume::told},
             one_of(to.backend, {"auto", "cuda", "cpu", "reference"}));
  line.value({.name = "--devices",
              .field = "devices.numbers",
              .type = "N,N,...",
              .default_value = "all",
              .help = "GPUs of this machine, counted from 0, assigned to the workers in turn; "
                      "several workers may share one."},
             text(to.device_numbers));
  line.toggle({.name = "--allow-tf32",
               .field = "devices.tf32",
               .help = "Lets fp32 matrix products on a GPU round their inputs to 10 bits of "
                       "fraction (TF32): faster, with other bits.",
               .resume = at_resume::told},
              [&d] { d.tf32 = true; });
  line.toggle(
      {.name = "--allow-nondeterministic",
       .field = "devices.nondeterministic",
       .help = "Lets cuDNN sum the gradients of attention in any order, by atomic additions. "
               "Faster, and memory grows with the sequence length instead of its square. Two runs "
               "of one configuration are then equal only up to rounding, so flags that compare "
               "bits are refused: --recovery on, --verify-fraction, --strict-identity. Without it, "
               "one configuration always has the same bits.",
       .resume = at_resume::told},
      [&d] { d.nondeterministic = true; });
  line.value(
      {.name = "--product-choices",
       .field = "devices.product_choices",
       .type = "FILE",
       .default_value = "~/.cache/troupe/products.json",
       .help = "File with the chosen algorithms of matrix products on a GPU. Each is measured "
               "once, so that later runs have the same bits; a copy is kept beside the "
               "checkpoints. none: measures nothing and takes the library's first suggestion.",
       .resume = at_resume::told},
      text(d.product_choices));
  line.value({.name = "--collectives",
              .field = "devices.exchange",
              .type = "NAME",
              .help = "How workers on GPUs reduce and exchange data. local: they read each other's "
                      "memory. nccl: NCCL transfers, and sums are taken in rank order; the same "
                      "bits as local. nccl-fast: NCCL sums in its own order; other bits, which "
                      "repeat in every run on such machines.",
              .resume = at_resume::told},
             one_of(d.exchange, {local, nccl, nccl_fast}));
  line.value({.name = "--transport",
              .field = "transport",
              .type = "NAME",
              .help = "How batches, activations and gradients move between workers. tickets: by "
                      "reference, without copies. ucx: over UCX on this machine, as between "
                      "processes; the same bits, slower, to test how such a run behaves."},
             one_of(to.job.transport, {runtime::transports::tickets, runtime::transports::ucx}));
}

void declare_testing(command_line& line, training_flags& to) {
  line.group("Testing");
  line.toggle({.name = "--check-messages",
               .field = "check_messages",
               .help = "Serializes and deserializes every message before delivery, as between "
                       "processes; a message that changes ends the run."},
              [&to] { to.job.check_messages = true; });
}

}  // namespace troupe::command::settings
