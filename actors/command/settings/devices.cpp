#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_device(command_line& line, training_flags& to) {
  auto& d = to.device;
  line.group("Device");
  line.value({.name = "--backend",
              .field = "backend",
              .type = "NAME",
              .help = "What computes. auto: cuda where a device can be used, else cpu. cuda; cpu; "
                      "reference: plain loops with double sums, slow, which judges the others.",
              .resume = at_resume::told},
             one_of(d.backend, {"auto", "cuda", "cpu", "reference"}));
  line.value(
      {.name = "--devices",
       .field = "devices.numbers",
       .type = "N,N,...",
       .default_value = "all of them",
       .help
       = "GPUs of this machine, counted from 0, for the workers in turn: several may share one."},
      text(d.numbers));
  line.toggle({.name = "--allow-tf32",
               .field = "devices.tf32",
               .help = "Products of fp32 on a GPU may round their inputs to 10 bits of fraction: "
                       "faster, and other bits.",
               .resume = at_resume::told},
              [&d] { d.tf32 = true; });
  line.toggle({.name = "--allow-nondeterministic",
               .field = "devices.nondeterministic",
               .help = "cuDNN may sum attention's gradients in the order in which they come: "
                       "faster, by atomic additions, with memory that grows with the "
                       "sequence length and not with its square. Two runs of one "
                       "configuration are then equal only up to rounding, and what compares bits "
                       "cannot be asked for: --recovery on, --verify-fraction, "
                       "--strict-identity. Off: one configuration has the same bits, always.",
               .resume = at_resume::told},
              [&d] { d.nondeterministic = true; });
  line.value({.name = "--product-choices",
              .field = "devices.product_choices",
              .type = "FILE",
              .default_value = "~/.cache/troupe/products.json",
              .help = "Where the algorithms of matrix products on a GPU are kept, each measured "
                      "once, so that every later run has the same bits; beside the checkpoints "
                      "too. none: nothing is measured, the library's first guess is taken.",
              .resume = at_resume::told},
             text(d.product_choices));
  line.value(
      {.name = "--collectives",
       .field = "devices.exchange",
       .type = "NAME",
       .help = "How workers on GPUs sum and exchange. local: they read each other's memory. nccl: "
               "NCCL moves, sums are taken in rank order: the same bits. nccl-fast: NCCL sums in "
               "an order of its own: other bits, the same again in every run on such machines.",
       .resume = at_resume::told},
      one_of(d.collectives, {"local", "nccl", "nccl-fast"}));
  line.value({.name = "--transport",
              .field = "transport",
              .type = "NAME",
              .help = "How batches, activations and gradients go from worker to worker. tickets: "
                      "they change hands, nothing is copied. ucx: by UCX on this machine, as "
                      "between processes: the same bits, slower; to try what such a run will do."},
             one_of(d.transport, {"tickets", "ucx"}));
}

void declare_testing(command_line& line, training_flags& to) {
  line.group("Testing");
  line.toggle({.name = "--check-messages",
               .field = "check_messages",
               .help = "Every message goes through bytes before it is delivered, as between "
                       "processes; one that does not come back equal ends the run."},
              [&to] { to.check_messages = true; });
}

}  // namespace troupe::command::settings
