"""Networks that no library brings, for the workloads of bench/torch."""
import torch
from torch import nn


def double(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU())


class UNet(nn.Module):
    """Down and up again; what is on the way down stays until the way up has used it. Sides are multiples of 16."""

    def __init__(self, classes=21, widths=(32, 64, 128, 256, 512)):
        super().__init__()
        self.down = nn.ModuleList(double(i, o) for i, o in zip((3, *widths), widths))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(double(2 * o, o) for o in widths[-2::-1])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skipped = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            skipped.append(x)
        skipped.pop()
        for rise, block in zip(self.rise, self.up):
            x = block(torch.cat((rise(x), skipped.pop()), 1))
        return self.head(x)


class RaggedEncoder(nn.Module):
    """Embedding, an LSTM in both directions, a transformer encoder, and the mean of what is no padding."""

    def __init__(self, words=32000, width=512, layers=6, classes=20):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids, keep):
        with torch.autocast('cuda', enabled=False):
            x, _ = self.lstm(self.words(ids))
        x = self.encoder(x, src_key_padding_mask=~keep)
        weight = keep.unsqueeze(-1).to(x.dtype)
        return self.head((x * weight).sum(1) / weight.sum(1))
