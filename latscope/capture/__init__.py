"""Stamps what happens between a client and its server; interprets nothing, and is never felt.

`instrument.attach` puts a `recorder.Tap` into a client: its transports are wrapped (`httpx2`,
`httpx`), its SDK's entry hooked (`sdk`), and each logical call comes out as one `Recording`
(`build`) through the callable `done`.
"""
