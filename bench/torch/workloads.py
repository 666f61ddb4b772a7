"""The programs that bench/torch measures.

A workload is a generator. Its first `yield` comes before it touches the device, so that what takes time on the host may
be prepared beside other runs; each further `yield` ends a step. `random` is a random.Random that every run of a
workload gets with the same seed, so that all configurations see the same shapes. A new one takes a few lines:

    @workload('mlp', 'training two layers, batch varies', steps=40)
    def mlp(random):
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(4096, 16384), torch.nn.ReLU(), torch.nn.Linear(16384, 4096))
        yield
        step = training(model.cuda(), lambda model, x: model(x).square().mean())
        while True:
            step(torch.randn(random.randint(64, 4096), 4096, device='cuda'))
            yield

It may stand here, or in a file that `measure.py --also=FILE` names. torch is imported where it is used: measure.py
itself runs without it.
"""

REGISTRY = {}


class Workload:
    def __init__(self, name, says, steps, chosen, imports, make):
        self.name, self.says, self.steps = name, says, steps
        self.chosen, self.imports, self.make = chosen, imports, make


def workload(name, says, steps, chosen=True, imports=()):
    """Register a generator. `steps` are those of a run without --steps; `imports` are modules that take long to
    import; what is not `chosen` runs where --workloads names it."""

    def register(make):
        if name in REGISTRY:
            raise ValueError(f"there are two workloads of the name '{name}'")
        REGISTRY[name] = Workload(name, says, steps, chosen, ('torch', *imports), make)
        return make

    return register


GPT2 = ('transformers.models.gpt2.modeling_gpt2',)


def training(model, loss_of, optimizer=None):
    """A step of training in bfloat16 by autocast, of a model that is on the device."""
    import torch

    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(*batch):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast('cuda', dtype=torch.bfloat16):
            loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()

    return step


def gpt2_model():
    """GPT-2 of 12 layers with random weights."""
    from transformers.models.gpt2.configuration_gpt2 import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config())


def tokens(batch, length):
    import torch

    return torch.randint(50257, (batch, length), device='cuda')


def language_loss(model, ids):
    return model(input_ids=ids, labels=ids, use_cache=False).loss


@workload('gpt2', 'training GPT-2, 12 layers, batch 8 x 512', steps=30, imports=GPT2)
def gpt2(random):
    model = gpt2_model().train()
    yield
    step = training(model.cuda(), language_loss)
    while True:
        step(tokens(8, 512))
        yield


@workload('gpt2-lengths', 'training GPT-2, batch 2 to 12, length 64 to 1000', steps=40, imports=GPT2)
def gpt2_lengths(random):
    model = gpt2_model().train()
    yield
    step = training(model.cuda(), language_loss)
    while True:
        step(tokens(random.randint(2, 12), random.randint(64, 1000)))
        yield


@workload('resnet50', 'training ResNet-50, images of many sizes', steps=60, imports=('torchvision.models.resnet',))
def resnet50(random):
    import torch
    from torchvision.models.resnet import resnet50 as make

    model = make(weights=None).train()
    yield
    model = model.cuda()
    classes = torch.nn.functional.cross_entropy
    step = training(model, lambda model, images, labels: classes(model(images), labels),
                    torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
    while True:
        batch, side = random.randint(8, 48), random.randrange(128, 321, 16)
        step(torch.randn(batch, 3, side, side, device='cuda'), torch.randint(1000, (batch,), device='cuda'))
        yield


@workload('gpt2-generate', 'GPT-2 generating 32 tokens a step, the KV cache grows', steps=20, imports=GPT2)
def gpt2_generate(random):
    import torch

    model = gpt2_model().eval()
    yield
    model = model.cuda()
    while True:
        ids, past = tokens(random.randint(4, 16), random.randint(32, 512)), None
        with torch.inference_mode():
            for _ in range(32):
                out = model.transformer(input_ids=ids, past_key_values=past, use_cache=True)
                past = out.past_key_values
                ids = model.lm_head(out.last_hidden_state[:, -1:]).argmax(-1)
        del out, past
        yield


@workload('unet', 'training a U-Net, images of many sizes, skip connections', steps=40)
def unet(random):
    import torch
    import nets

    model = nets.UNet().train()
    yield
    step = training(model.cuda(), lambda model, images, mask: torch.nn.functional.cross_entropy(model(images), mask))
    while True:
        batch = random.randint(2, 12)
        high, wide = random.randrange(128, 449, 32), random.randrange(128, 449, 32)
        step(torch.randn(batch, 3, high, wide, device='cuda'), torch.randint(21, (batch, high, wide), device='cuda'))
        yield


@workload('ragged-encoder', 'training a transformer encoder over an LSTM, ragged batches', steps=50)
def ragged_encoder(random):
    import torch
    import nets

    model = nets.RaggedEncoder().train()
    yield
    step = training(model.cuda(), lambda model, ids, keep, labels: torch.nn.functional.cross_entropy(
        model(ids, keep), labels))
    while True:
        lengths = [min(900, int(random.lognormvariate(4.6, 0.8)) + 8) for _ in range(random.randint(16, 96))]
        longest = torch.tensor(lengths).cuda()
        keep = torch.arange(max(lengths), device='cuda') < longest[:, None]
        step(torch.randint(32000, keep.shape, device='cuda'), keep, torch.randint(20, (len(lengths),), device='cuda'))
        yield


@workload('blocks', 'tensors that come and go, with no work on the device: a test of the measurement', steps=20,
          chosen=False)
def blocks(random):
    import torch

    yield
    held = []
    while True:
        for _ in range(200):
            held.append(torch.empty(random.randint(0, 1 << 18), dtype=torch.uint8, device='cuda'))
            if len(held) > 40:
                held.pop(random.randrange(len(held)))
        yield
